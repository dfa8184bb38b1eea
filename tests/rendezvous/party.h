#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "rendezvous/client.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/member.h"
#include "support/message_of.h"

namespace lockstep::rendezvous::test {

using namespace std::chrono_literals;
using base::Deadline;

inline Deadline soon() { return Deadline::in(10s); }

Member member(int rank, int world_size, const std::string& job = "job-1");

/// A free port of 127.0.0.1.
inline Endpoint loopback() { return Endpoint::tcp("127.0.0.1", 0); }

using lockstep::test::message_of;

template <class Action>
std::chrono::milliseconds time_of(Action&& action) {
  const auto begin = Deadline::Clock::now();
  action();
  return std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - begin);
}

/// How one rank's meeting ended.
struct Outcome {
  std::string kind;      ///< "met", or the error's type
  std::string happened;  ///< without rank and remedy
  std::string message;
  std::chrono::milliseconds time{};
};

/// All of `members` meet, each in a thread of its own. Those who met stay until all are done.
std::vector<Outcome> meet_all(const std::string& init_method, const std::vector<Member>& members,
                              Deadline deadline);

/// Something that listens on 127.0.0.1 and is no store: does `behave` with every connection.
class Stranger {
 public:
  explicit Stranger(std::function<void(int fd)> behave);
  ~Stranger();
  std::uint16_t port() const { return port_; }

 private:
  base::Fd listener_;
  base::EventFd stop_;
  std::uint16_t port_ = 0;
  std::future<void> thread_;
};

/// A connection of a client that is none of ours.
class RawClient {
 public:
  explicit RawClient(const Endpoint& endpoint);
  void send(const std::string& bytes);
  /// True when the other side closes before the deadline.
  bool closed(Deadline deadline);
  int fd() const { return fd_.get(); }

 private:
  base::Fd fd_;
};

}  // namespace lockstep::rendezvous::test
