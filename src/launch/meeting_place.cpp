#include "launch/meeting_place.h"

#include "base/concat.h"
#include "base/env.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using base::concat;

constexpr std::uint16_t kEndpointPort = 29400;
constexpr std::uint16_t kMasterPort = 29500;

std::optional<std::uint16_t> parse_port(const std::string& text) {
  const auto port = base::parse_number(text);
  if (!port || *port < 0 || *port > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

[[noreturn]] void refuse(const std::string& endpoint) {
  throw UsageError(concat("--rdzv-endpoint '", endpoint, "' is not HOST or HOST:PORT"),
                   "write for example 10.0.0.1:29500, node0:29500 or [fd00::1]:29500");
}

// "HOST:PORT", "HOST", "[IPV6]:PORT", "[IPV6]"; digits of IPv6 without brackets have no port.
MeetingPlace parse_endpoint(const std::string& endpoint) {
  MeetingPlace place{endpoint, kEndpointPort};
  std::string port;
  if (endpoint.starts_with('[')) {
    const auto close = endpoint.find(']');
    if (close == std::string::npos) refuse(endpoint);
    place.host = endpoint.substr(1, close - 1);
    const std::string rest = endpoint.substr(close + 1);
    if (rest.empty()) return place;
    if (rest[0] != ':') refuse(endpoint);
    port = rest.substr(1);
  } else {
    const auto colon = endpoint.find(':');
    if (colon == std::string::npos || endpoint.find(':', colon + 1) != std::string::npos)
      return place;
    place.host = endpoint.substr(0, colon);
    port = endpoint.substr(colon + 1);
  }
  const auto number = parse_port(port);
  if (!number || place.host.empty()) refuse(endpoint);
  place.port = *number;
  return place;
}

}  // namespace

MeetingPlace meeting_place(const RunOptions& options) {
  if (!options.rendezvous_endpoint.empty()) return parse_endpoint(options.rendezvous_endpoint);
  MeetingPlace place = parse_endpoint(options.master_address);
  place.port = options.master_port.value_or(kMasterPort);
  return place;
}

std::optional<std::uint16_t> chosen_port(const RunOptions& options) {
  if (options.master_port) return options.master_port;
  if (options.rendezvous_endpoint.empty() || options.nodes > 1) return std::nullopt;
  const std::uint16_t port = meeting_place(options).port;
  return port == 0 ? std::nullopt : std::optional(port);
}

}  // namespace lockstep::launch
