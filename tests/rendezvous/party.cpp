#include "rendezvous/party.h"

#include <array>
#include <latch>
#include <typeinfo>

#include "base/socket.h"
#include "lockstep/error.h"
#include "rendezvous/meet.h"

namespace lockstep::rendezvous::test {
namespace {

std::string kind_of(const Error& error) {
  if (typeid(error) == typeid(UsageError)) return "UsageError";
  if (typeid(error) == typeid(TimeoutError)) return "TimeoutError";
  if (typeid(error) == typeid(PeerLost)) return "PeerLost";
  if (typeid(error) == typeid(RendezvousError)) return "RendezvousError";
  return "another error";
}

}  // namespace

Member member(int rank, int world_size, const std::string& job) {
  return {.job_id = job,
          .token = "secret",
          .attempt = 0,
          .rank = rank,
          .world_size = world_size,
          .host = "host-" + std::to_string(rank),
          .pid = 1000 + rank};
}

std::vector<Outcome> meet_all(const std::string& init_method, const std::vector<Member>& members,
                              Deadline deadline) {
  std::vector<std::future<Outcome>> ranks;
  std::latch done(static_cast<std::ptrdiff_t>(members.size()));
  for (const auto& self : members) {
    ranks.push_back(std::async(std::launch::async, [&, self] {
      Outcome outcome{"met"};
      Meeting meeting;
      outcome.time = time_of([&] {
        try {
          meeting = meet(init_method, self, deadline);
        } catch (const Error& error) {
          outcome.kind = kind_of(error);
          outcome.happened = error.happened();
          outcome.message = error.what();
        }
      });
      done.arrive_and_wait();
      return outcome;
    }));
  }
  std::vector<Outcome> outcomes;
  for (auto& rank : ranks) outcomes.push_back(rank.get());
  return outcomes;
}

Stranger::Stranger(std::function<void(int fd)> behave) {
  auto opened = base::open_listener(*base::SocketAddress::ip("127.0.0.1", 0));
  listener_ = std::move(opened.fd);
  port_ = base::bound_address(listener_.get()).port();
  thread_ = std::async(std::launch::async, [this, behave] {
    std::vector<base::Fd> guests;
    for (;;) {
      std::array<pollfd, 2> events{pollfd{stop_.get(), POLLIN, 0},
                                   pollfd{listener_.get(), POLLIN, 0}};
      base::poll_until(events, std::nullopt);
      if (events[0].revents != 0) return;
      auto [fd, error] = base::accept_from(listener_.get());
      if (error != 0) continue;
      behave(fd.get());
      guests.push_back(std::move(fd));
    }
  });
}

Stranger::~Stranger() {
  stop_.raise();
  thread_.wait();
}

RawClient::RawClient(const Endpoint& endpoint) {
  auto connected = base::connect_to(*base::SocketAddress::ip(endpoint.host, endpoint.port), soon());
  EXPECT_EQ(connected.error, 0);
  fd_ = std::move(connected.fd);
}

void RawClient::send(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto some = base::send_some(fd_.get(), std::as_bytes(std::span(bytes)).subspan(sent));
    if (some.ended) return;
    sent += some.count;
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (some.would_block && !base::poll_until({&writable, 1}, soon())) return;
  }
}

bool RawClient::closed(Deadline deadline) {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const auto got = base::receive_some(fd_.get(), buffer);
    if (got.ended) return true;
    pollfd readable{fd_.get(), POLLIN, 0};
    if (got.would_block && !base::poll_until({&readable, 1}, deadline)) return false;
  }
}

}  // namespace lockstep::rendezvous::test
