#define LOCKSTEP_KERNELS avx512
#include "comm/backends/shm/kernel_loops.h"
