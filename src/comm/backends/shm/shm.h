#pragma once
#include "comm/registry.h"

namespace lockstep::comm::shm {

/// Shared memory, for CPU tensors of ranks on one host. Its collectives block, and meet in the
/// group's turns; send copies, and waits for nobody.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

}  // namespace lockstep::comm::shm
