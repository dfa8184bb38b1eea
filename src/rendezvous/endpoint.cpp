#include "rendezvous/endpoint.h"

#include "base/concat.h"
#include "base/env.h"
#include "lockstep/error.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kUnixScheme = "unix:";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError(
      base::concat("'", text, "' does not say where the store is: ", why),
      "write tcp://HOST:PORT, as in tcp://10.0.0.1:29500 or tcp://[::1]:29500, or unix:/PATH");
}

std::uint16_t parse_port(std::string_view text, std::string_view digits) {
  const auto port = base::parse_number(digits);
  if (!port || *port < 0 || *port > 65535)
    refuse(text, base::concat("the port '", digits, "' is not a number from 0 to 65535"));
  return static_cast<std::uint16_t>(*port);
}

Endpoint parse_tcp(std::string_view text, std::string_view rest) {
  std::string_view host;
  std::string_view behind;
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos)
      refuse(text, "the bracket of the IPv6 address is not closed");
    host = rest.substr(1, end - 1);
    behind = rest.substr(end + 1);
  } else {
    const auto colon = rest.find(':');
    host = rest.substr(0, colon);
    behind = colon == std::string_view::npos ? "" : rest.substr(colon);
    if (behind.find(':', 1) != std::string_view::npos)
      refuse(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) refuse(text, "the host is missing");
  if (!behind.starts_with(':') || behind.size() < 2) refuse(text, "the port is missing");
  return Endpoint::tcp(std::string(host), parse_port(text, behind.substr(1)));
}

}  // namespace

Endpoint Endpoint::tcp(std::string host, std::uint16_t port) {
  return {.kind = kTcp, .host = std::move(host), .port = port, .path = ""};
}

Endpoint Endpoint::unix_path(std::string path) {
  return {.kind = kUnix, .host = "", .port = 0, .path = std::move(path)};
}

Endpoint Endpoint::parse(std::string_view text) {
  if (text.starts_with(kTcpScheme)) return parse_tcp(text, text.substr(kTcpScheme.size()));
  if (!text.starts_with(kUnixScheme)) refuse(text, "it starts with neither tcp:// nor unix:");
  const std::string_view path = text.substr(kUnixScheme.size());
  if (path.empty()) refuse(text, "the path is missing");
  if (path.find('\0') != std::string_view::npos) refuse(text, "a path cannot hold a zero byte");
  return unix_path(std::string(path));
}

std::string Endpoint::text() const {
  if (kind == kUnix) return base::concat(kUnixScheme, path);
  if (host.find(':') != std::string::npos) return base::concat(kTcpScheme, "[", host, "]:", port);
  return base::concat(kTcpScheme, host, ":", port);
}

}  // namespace lockstep::rendezvous
