#define LOCKSTEP_KERNELS baseline
#include "comm/backends/shm/kernel_loops.h"
