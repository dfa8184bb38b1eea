#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::rendezvous {

/// Where a store listens, or is to listen.
struct Endpoint {
  enum Kind { kTcp, kUnix };

  Kind kind = kTcp;
  std::string host;        ///< kTcp: a name, or digits without brackets
  std::uint16_t port = 0;  ///< kTcp: 0 lets the server choose
  std::string path;        ///< kUnix

  /// "tcp://HOST:PORT" (IPv6 as in tcp://[::1]:29500) or "unix:PATH". Throws UsageError.
  static Endpoint parse(std::string_view text);
  static Endpoint tcp(std::string host, std::uint16_t port);
  static Endpoint unix_path(std::string path);

  /// The form `parse` takes.
  std::string text() const;
  bool operator==(const Endpoint&) const = default;
};

}  // namespace lockstep::rendezvous
