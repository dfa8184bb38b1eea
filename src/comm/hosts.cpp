#include "comm/hosts.h"

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "base/host.h"
#include "base/route.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using base::concat;

constexpr const char* kInterfaceVariable = "GLOO_SOCKET_IFNAME";

constexpr const char* kHostVariable = "LOCKSTEP_HOST_ID";

std::string address_of_interface(const std::string& wanted) {
  std::string present;
  std::optional<base::SocketAddress> chosen;
  for (const base::InterfaceAddress& entry : base::interface_addresses()) {
    if (present.find(entry.interface) == std::string::npos)
      present += concat(present.empty() ? "" : ", ", entry.interface);
    if (entry.interface != wanted || entry.address.is_link_local()) continue;
    if (!chosen || chosen->family() != AF_INET) chosen = entry.address;
  }
  if (!chosen)
    throw UsageError(concat(kInterfaceVariable, "='", wanted,
                            "' names no interface of this host with an address"),
                     concat("choose one of: ", present));
  return chosen->host();
}

/// The address of `text` when other hosts could use it.
std::optional<base::SocketAddress> reachable(const std::string& text) {
  const auto address = base::SocketAddress::ip(text, 0);
  return address && !address->is_loopback() && !address->is_wildcard() ? address : std::nullopt;
}

}  // namespace

std::string host_identity(const base::Env& env) {
  return concat(env.text(kHostVariable).value_or(""), "|", base::host_name(), "|", base::boot_id(),
                "|", base::network_namespace());
}

std::optional<std::string> chosen_address(const base::Env& env) {
  const auto wanted = env.text(kInterfaceVariable);
  return wanted ? std::optional(address_of_interface(*wanted)) : std::nullopt;
}

Hosts find_hosts(Exchange& exchange, int rank, const std::string& on_connection,
                 const base::Env& env, std::chrono::milliseconds limit) {
  const auto wanted = chosen_address(env);
  const std::string mine = wanted.value_or(on_connection);
  Hosts hosts;
  std::vector<std::string> known;
  std::vector<std::string> addresses;
  for (const std::string& text :
       exchange.all_gather(concat(mine, "\n", host_identity(env)), limit)) {
    const std::size_t line = text.find('\n');
    const std::string host = text.substr(line + 1);
    const auto at = std::find(known.begin(), known.end(), host);
    hosts.of_rank.push_back(static_cast<int>(at - known.begin()));
    addresses.push_back(text.substr(0, line));
    if (at == known.end()) known.push_back(host);
  }
  if (known.size() == 1) return hosts;
  if (wanted || reachable(mine)) {
    hosts.address = mine;
    return hosts;
  }
  const int here = hosts.of_rank[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < addresses.size(); ++other) {
    const auto address = reachable(addresses[other]);
    if (hosts.of_rank[other] == here || !address) continue;
    hosts.address = base::address_towards(*address).host();
    return hosts;
  }
  throw RendezvousError(
      "no address is known by which the other hosts reach this one",
      concat("name rank 0's host by an address that is not loopback, or set ", kInterfaceVariable));
}

}  // namespace lockstep::comm
