#include "comm/backends/shm/kernels.h"

namespace lockstep::comm::shm {
namespace {

struct Instructions {
  const char* name;
  Kernel (*find)(Dtype, Op);
};

Instructions choose() {
#if defined(LOCKSTEP_X86_KERNELS)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return {"avx512", avx512::find_kernel};
  if (__builtin_cpu_supports("avx2")) return {"avx2", avx2::find_kernel};
#endif
  return {"baseline", baseline::find_kernel};
}

const Instructions& chosen() {
  static const Instructions instructions = choose();
  return instructions;
}

}  // namespace

Kernel find_kernel(Dtype dtype, Op op) { return chosen().find(dtype, op); }

const char* kernel_instructions() { return chosen().name; }

}  // namespace lockstep::comm::shm
