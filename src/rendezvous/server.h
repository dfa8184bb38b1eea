#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/socket.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

/// Serves one job's store: admits its processes, keeps their values, and tells them who goes.
///
///     Server server(Endpoint::parse("tcp://localhost:0"), self);
///     auto client = Client::connect(server.endpoint(), self, Deadline::in(5s));
///
/// Runs in a thread of its own ("ls-store"). Thread-safe. `host` is the process that serves; its
/// job id, attempt, token and world size are what newcomers are held against.
class Server {
 public:
  /// Listens at `endpoint` (port 0: any free one). Throws RendezvousError naming who holds the
  /// place.
  Server(const Endpoint& endpoint, const Member& host);

  /// Serves on a stream socket that was bound, and maybe listens already. Clients that wait in the
  /// backlog of a listening socket take a server that starts over 5 s later for a stranger.
  Server(base::Fd bound, const Member& host);

  /// Says goodbye to the members and gives them up to 1 s to hear it.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens, with the real port.
  Endpoint endpoint() const;

  /// Where processes of this host reach it, this one included.
  std::vector<base::SocketAddress> local_addresses() const;

  /// A random text of this server alone.
  const std::string& instance() const;

  /// How many ranks have joined so far, gone ones included.
  std::size_t joined() const;

  /// Waits until no member is left but the one that serves; false at the deadline. Called before
  /// that one says goodbye: whoever still reads a last value would lose the store.
  bool wait_until_alone(base::Deadline deadline);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lockstep::rendezvous
