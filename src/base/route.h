#pragma once
#include "base/socket.h"

namespace lockstep::base {

/// The address of this host from which packets to `target` leave: what a peer there can reach it by.
/// Asks the kernel's routing table; sends nothing. Throws InternalError when there is no route.
SocketAddress address_towards(const SocketAddress& target);

}  // namespace lockstep::base
