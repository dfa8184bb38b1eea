// In place of nccl.cpp where that cannot be built; CMake says why.
#include "comm/backends/nccl/nccl.h"
#include "lockstep/error.h"

namespace lockstep::comm::nccl {

std::string why_not(const BackendContext&) { return LOCKSTEP_NCCL_ABSENT; }

c10::intrusive_ptr<c10d::Backend> create(const BackendContext&) {
  throw InternalError("nccl was chosen in a build without it");
}

}  // namespace lockstep::comm::nccl
