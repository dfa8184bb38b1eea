#pragma once
#include <functional>
#include <string>

#include "lockstep/comm.h"

namespace lockstep::test {

/// Runs `body` on `size` ranks, each a thread of this process with a world of its own, meeting
/// through a Unix socket in a temporary folder. Rethrows the first failure by rank; fails the test
/// when a rank is not done within `limit`, naming it.
void on_ranks(int size, const std::function<void(Group&)>& body,
              const std::string& backend = "gloo",
              std::chrono::milliseconds limit = std::chrono::seconds(30));

}  // namespace lockstep::test
