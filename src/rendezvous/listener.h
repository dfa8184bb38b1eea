#pragma once
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/rename.h"
#include "base/socket.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

/// The socket on which a store's clients arrive. Removes its Unix path at the end, if that is still
/// its own.
class Listener {
 public:
  /// Throws RendezvousError: who holds the place already, or why it cannot be had.
  ///
  /// tcp: digits of this host, or localhost, are bound alone. A name, or digits that this host does
  /// not have (a forwarded address), means all interfaces: how others reach this host is their
  /// matter. unix: a socket left by a dead owner is replaced; the path is open to this user alone.
  Listener(const Endpoint& endpoint, const Member& host);

  /// Takes over a socket that is bound already.
  explicit Listener(base::Fd bound);

  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_.get(); }
  const Endpoint& endpoint() const { return endpoint_; }
  /// Where processes of this host, and so this one, reach it.
  std::vector<base::SocketAddress> local_addresses() const;

  /// Nobody new can arrive from now on.
  void close() noexcept;

 private:
  void open_tcp(const Member& host);
  void open_unix(const Member& host);

  base::Fd fd_;
  Endpoint endpoint_;
  std::string owned_path_;
  base::HeldFile file_;
};

}  // namespace lockstep::rendezvous
