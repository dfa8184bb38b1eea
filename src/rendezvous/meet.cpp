#include "rendezvous/meet.h"

#include "base/concat.h"
#include "rendezvous/dial.h"
#include "rendezvous/endpoint.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::Deadline;

void check(const Member& self) {
  if (self.world_size >= 1) return;
  throw UsageError(concat("the world size is ", self.world_size),
                   "give the number of processes, 1 or more");
}

// A rank outside the world joins for a moment only: so that rank 0 learns of it, too.
constexpr std::chrono::seconds kOutsiderLimit{5};

bool is_outsider(const Member& self) { return self.rank < 0 || self.rank >= self.world_size; }

[[noreturn]] void send_away(const std::string& init_method, const Member& self, Deadline deadline) {
  const UsageError error(concat(self.text(), " is outside the world of ", self.world_size),
                         concat("give each process its own rank from 0 to ", self.world_size - 1),
                         {.rank = self.rank, .world_size = self.world_size, .op = "rendezvous"});
  try {
    dial(Endpoint::parse(init_method), self,
         deadline.remaining() < kOutsiderLimit ? deadline : Deadline::in(kOutsiderLimit));
  } catch (const RendezvousError&) {
    throw error;
  }
  throw error;
}

Admission dial_own(const Server& server, const Member& self, Deadline deadline) {
  Dialer dialer(self, server.endpoint().text());
  dialer.expect(server.instance());
  Backoff backoff(std::chrono::milliseconds(16));
  do {
    if (auto admission = dialer.attempt(server.local_addresses(), deadline))
      return std::move(*admission);
  } while (backoff.pause(deadline));
  dialer.give_up(deadline);
}

}  // namespace

Meeting meet(const std::string& init_method, const Member& self, Deadline deadline) {
  check(self);
  if (is_outsider(self)) send_away(init_method, self, deadline);
  const Endpoint endpoint = Endpoint::parse(init_method);
  Meeting meeting;
  if (self.rank == 0) {
    meeting.server = std::make_shared<Server>(endpoint, self);
    meeting.client = std::make_shared<Client>(dial_own(*meeting.server, self, deadline), self);
  } else {
    meeting.client = Client::connect(endpoint, self, deadline);
  }
  meeting.members = meeting.client->wait_for_all(deadline);
  return meeting;
}

}  // namespace lockstep::rendezvous
