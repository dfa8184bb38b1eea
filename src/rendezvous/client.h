#pragma once
/// One process's place in its job's store: who is there, small values by key, and word of who goes.
///
///     auto client = Client::connect(Endpoint::parse("tcp://10.0.0.1:29500"), self,
///     Deadline::in(60s)); auto members = client->wait_for_all(Deadline::in(300s));
///     client->set("address/" + std::to_string(self.rank), my_address);
///     std::string theirs = client->get("address/0", Deadline::in(30s));
///
/// Thread-safe; a call that blocks delays no other. One thread of its own ("ls-store-client") reads
/// answers and news. Once the store is gone, or the job's settings turned out to contradict each
/// other, every call fails at once: PeerLost names who served it, RendezvousError the settings.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

struct Admission;

class Client {
 public:
  /// Retries until the deadline: the server may be yet to come. Throws RendezvousError (nobody
  /// there, a stranger there, refused: with both sides' names) or UsageError (this process's own
  /// settings).
  static std::shared_ptr<Client> connect(const Endpoint& endpoint, const Member& self,
                                         base::Deadline deadline);

  Client(Admission admission, Member self);

  /// `leave()`.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Everyone, by rank, once all have joined. TimeoutError at the deadline: it lists the missing
  /// ranks and ends the wait of every other rank too, with the same words. PeerLost when one goes
  /// before.
  std::vector<Member> wait_for_all(base::Deadline deadline);

  // Values: what c10d::Store does. The verbs without a deadline wait for the server's answer, at
  // most the reply limit. Key and value together may have up to 64 MiB.

  void set(const std::string& key, const std::string& value);
  /// Blocks until the key is set; TimeoutError at the deadline.
  std::string get(const std::string& key, base::Deadline deadline);
  /// The new sum, kept as decimal text; a missing key counts as 0. UsageError when the value is no
  /// number.
  std::int64_t add(const std::string& key, std::int64_t amount);
  /// Sets `desired` when the value is `expected`, or when both are absent (expected: ""). Returns
  /// the value there afterwards; `expected` when there is none.
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired);
  /// True when the key was there.
  bool erase(const std::string& key);
  bool has(const std::vector<std::string>& keys);
  /// Blocks until all are set; TimeoutError at the deadline.
  void wait(const std::vector<std::string>& keys, base::Deadline deadline);
  std::int64_t count_keys();
  void append(const std::string& key, const std::string& value);

  /// `handler` is called for every member that goes, and for those gone already, each once, in the
  /// client's own thread. It must be short, and may not call the verbs above (UsageError). When the
  /// store is lost, the member that served it is told as lost, before any call fails for that.
  void on_departure(std::function<void(const Member&, Departure)> handler);

  /// Says goodbye. Calls under way fail, no handler runs after it returns (unless one calls it).
  void leave() noexcept;

  const Member& self() const;
  /// The process that serves the store.
  const Member& host() const;
  /// This host's address on the connection to the store: what other hosts reach it by. Empty over a
  /// Unix socket.
  std::string local_address() const;

  /// How long the server may take to answer. 60 s unless set.
  void set_reply_limit(std::chrono::milliseconds limit);

 private:
  class Session;
  std::shared_ptr<Session> session_;
};

}  // namespace lockstep::rendezvous
