#pragma once
#include "comm/registry.h"

namespace lockstep::comm::hierarchical {

/// For groups over several hosts of which one has several ranks: the fastest backend inside each
/// host, Gloo between the hosts' first ranks, so that each byte crosses a host's link once. What
/// has no such way (all_to_all, gather, scatter, send, recv) goes by Gloo among all ranks.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

}  // namespace lockstep::comm::hierarchical
