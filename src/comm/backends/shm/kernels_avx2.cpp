#define LOCKSTEP_KERNELS avx2
#include "comm/backends/shm/kernel_loops.h"
