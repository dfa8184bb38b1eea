#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/key_values.h"
#include "rendezvous/roster.h"
#include "rendezvous/wire.h"

namespace lockstep::rendezvous {

/// What the server does with the bytes of its peers, apart from all sockets. Not thread-safe.
class Hub {
 public:
  using Peer = std::uint64_t;

  /// `send` gets bytes for one peer. After `drop` the peer's connection is to be closed once they
  /// are out.
  struct Outlet {
    std::function<void(Peer, std::string bytes)> send;
    std::function<void(Peer)> drop;
  };

  /// `instance` tells this server from every other.
  Hub(Member host, std::string instance, Outlet outlet);

  void open(Peer peer);
  void receive(Peer peer, std::span<const std::byte> bytes);
  /// The peer's connection has ended. Without a goodbye before, a member is lost.
  void close(Peer peer);
  /// Says goodbye to every member: the store is closed on purpose.
  void say_goodbye();

  bool admitted(Peer peer) const;
  std::size_t joined() const { return roster_.joined(); }
  /// Members that have joined and not gone.
  std::size_t present() const { return roster_.joined() - roster_.departed().size(); }

 private:
  struct Visitor {
    FrameReader reader{kClientMagic, kHelloLimit};
    std::optional<int> rank;  ///< set by admission
    bool dropped = false;
  };

  void drop(Peer peer, Visitor& visitor);
  void turn_away(Peer peer, Visitor& visitor);
  void handle(Peer peer, Visitor& visitor, std::string_view frame);
  void hello(Peer peer, Visitor& visitor, Unpacker& fields);
  void request(Peer peer, Visitor& visitor, Unpacker& fields);
  bool change(Peer peer, std::uint64_t id, Unpacker& fields);
  bool look(Peer peer, std::uint64_t id, Unpacker& fields);
  bool meet(Peer peer, std::uint64_t id, Unpacker& fields);
  void depart(Peer peer, int rank, Departure how);
  void reply(Peer peer, std::uint64_t id, std::string_view value);
  void fail(Peer peer, std::uint64_t id, const Failure& failure);
  void answer(const KeyValues::Ready& ready);
  void answer_all_waiting();
  void to_members(const std::string& frame);

  Roster roster_;
  KeyValues values_;
  std::string instance_;
  Outlet outlet_;
  std::unordered_map<Peer, Visitor> visitors_;
  std::vector<std::pair<Peer, std::uint64_t>> waiting_for_all_;
  std::optional<Failure> over_;  ///< the meeting has failed for everyone
};

}  // namespace lockstep::rendezvous
