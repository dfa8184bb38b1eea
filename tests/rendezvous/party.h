#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "base/deadline.h"
#include "base/host.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous::test {

using namespace std::chrono_literals;
using base::Deadline;

inline Deadline soon() { return Deadline::in(10s); }

inline Member member(int rank, int world_size, const std::string& job = "job-1") {
  return {.job_id = job,
          .token = "secret",
          .attempt = 0,
          .rank = rank,
          .world_size = world_size,
          .host = "host-" + std::to_string(rank),
          .pid = 1000 + rank};
}

inline Endpoint loopback() { return Endpoint::tcp("127.0.0.1", 0); }

/// What the `Error` that `action` throws says; the test fails when it throws none.
template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// How long `action` takes.
template <class Action>
std::chrono::milliseconds time_of(Action&& action) {
  const auto begin = Deadline::Clock::now();
  action();
  return std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - begin);
}

}  // namespace lockstep::rendezvous::test
