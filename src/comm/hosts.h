#pragma once
#include <string>
#include <vector>

#include "base/env.h"
#include "comm/exchange.h"

namespace lockstep::comm {

/// Which ranks run on one host, and how other hosts reach this one.
struct Hosts {
  std::vector<int> of_rank;  ///< equal numbers are one host
  /// This host's address as the other hosts reach it; empty when there are none. Never loopback.
  std::string address;
};

/// Collective. `on_connection` is this host's address on its connection to the store: loopback or
/// empty for ranks on the host that serves it, which then take the address from which packets leave
/// to another host. GLOO_SOCKET_IFNAME, where set, chooses the interface; UsageError lists those
/// present when it names none.
Hosts find_hosts(Exchange& exchange, int rank, const std::string& on_connection,
                 const base::Env& env, std::chrono::milliseconds limit);

}  // namespace lockstep::comm
