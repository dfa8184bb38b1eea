#pragma once
#include <optional>
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

/// Equal texts: two processes can share memory and meet on loopback. What LOCKSTEP_HOST_ID says
/// tells further parts of a machine apart: they then deal with each other as hosts do. Local.
std::string host_identity(const base::Env& env);

/// The address of the interface that GLOO_SOCKET_IFNAME chooses; nothing where it is not set.
/// UsageError lists the interfaces when it names none. Local.
std::optional<std::string> chosen_address(const base::Env& env);

/// Collective. `on_connection` is this host's address on its connection to the store: loopback or
/// empty for ranks on the host that serves it, which then take the address from which packets leave
/// to another host. `chosen_address` wins over both.
Hosts find_hosts(Exchange& exchange, int rank, const std::string& on_connection,
                 const base::Env& env, std::chrono::milliseconds limit);

}  // namespace lockstep::comm
