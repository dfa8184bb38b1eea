#pragma once
#include "comm/registry.h"

namespace lockstep::comm::gloo {

/// c10d's Gloo: TCP between any hosts, CPU tensors. Always available.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

}  // namespace lockstep::comm::gloo
