#pragma once
#include "comm/registry.h"

namespace lockstep::comm::solo {

/// The backend of a group of one: every collective is a copy or nothing at all.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

}  // namespace lockstep::comm::solo
