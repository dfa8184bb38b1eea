#include "rendezvous/meet.h"

#include "base/concat.h"
#include "rendezvous/dial.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/meet_by_file.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::Deadline;

bool is_file(const std::string& init_method) { return init_method.starts_with("file:"); }

void check(const std::string& init_method, const Member& self) {
  if (self.world_size < 1) {
    throw UsageError(concat("the world size is ", self.world_size),
                     "give the number of processes, 1 or more",
                     {.rank = self.rank, .op = "rendezvous"});
  }
  if (is_file(init_method)) {
    rendezvous_path(init_method);
    return;
  }
  if (!init_method.starts_with("tcp://") && !init_method.starts_with("unix:")) {
    throw UsageError(concat("the init method '", init_method, "' is none of those known here"),
                     "use tcp://HOST:PORT, file:///PATH or unix:/PATH");
  }
  const Endpoint endpoint = Endpoint::parse(init_method);
  if (endpoint.kind == Endpoint::kTcp && endpoint.port == 0 && self.world_size > 1) {
    throw UsageError(
        concat("'", init_method, "' leaves the port open, and the ranks cannot guess it"),
        "give all ranks one port that is free on rank 0's host");
  }
}

Admission enter(const std::string& init_method, const Member& self, Deadline deadline) {
  if (is_file(init_method)) return dial_by_file(rendezvous_path(init_method), self, deadline);
  return dial(Endpoint::parse(init_method), self, deadline);
}

// A rank outside the world knocks all the same, for a moment: so that rank 0 learns of it, too.
constexpr std::chrono::seconds kOutsiderLimit{5};

[[noreturn]] void send_away(const std::string& init_method, const Member& self, Deadline deadline) {
  try {
    enter(init_method, self,
          deadline.remaining() < kOutsiderLimit ? deadline : Deadline::in(kOutsiderLimit));
  } catch (const RendezvousError&) {
    // Whatever else is wrong, the rank comes first.
  }
  throw UsageError(concat(self.text(), " is outside the world of ", self.world_size),
                   concat("give each process its own rank from 0 to ", self.world_size - 1),
                   {.rank = self.rank, .world_size = self.world_size, .op = "rendezvous"});
}

std::shared_ptr<Client> join_own(const Server& server, const Member& self, Deadline deadline) {
  Dialer dialer(self, server.endpoint().text());
  dialer.expect(server.instance());
  Backoff backoff(std::chrono::milliseconds(16));
  do {
    if (auto admission = dialer.attempt(server.local_addresses(), deadline))
      return std::make_shared<Client>(std::move(*admission), self);
  } while (backoff.pause(deadline));
  dialer.give_up(deadline);
}

Meeting serve(const std::string& init_method, const Member& self, Deadline deadline) {
  if (!is_file(init_method)) {
    auto server = std::make_shared<Server>(Endpoint::parse(init_method), self);
    auto client = join_own(*server, self, deadline);
    return {std::move(server), std::move(client), {}};
  }
  auto [server, secret] = serve_by_file(rendezvous_path(init_method), self);
  Member admitted = self;
  admitted.token = secret;
  auto client = join_own(*server, admitted, deadline);
  return {std::move(server), std::move(client), {}};
}

}  // namespace

Meeting meet(const std::string& init_method, const Member& self, Deadline deadline) {
  check(init_method, self);
  if (self.rank < 0 || self.rank >= self.world_size) send_away(init_method, self, deadline);
  Meeting meeting;
  if (self.rank == 0) {
    meeting = serve(init_method, self, deadline);
  } else {
    meeting.client = std::make_shared<Client>(enter(init_method, self, deadline), self);
  }
  try {
    meeting.members = meeting.client->wait_for_all(deadline);
  } catch (const TimeoutError& error) {
    if (!is_file(init_method) || meeting.server == nullptr || meeting.server->joined() > 1) throw;
    throw TimeoutError(
        concat("only rank 0 was seen in this file: ", rendezvous_path(init_method).string(),
               "; is the folder shared by all hosts? (", error.happened(), ")"),
        "give a path on a file system that every host mounts, or use tcp://HOST:PORT",
        error.context());
  }
  return meeting;
}

}  // namespace lockstep::rendezvous
