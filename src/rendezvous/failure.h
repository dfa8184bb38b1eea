#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "lockstep/error.h"
#include "rendezvous/member.h"

namespace lockstep::rendezvous {

/// An error on its way: across the wire, or to several threads that each throw their own copy.
struct Failure {
  enum Kind { kUsage, kRendezvous, kTimeout, kPeerLost };

  Kind kind = kRendezvous;
  std::string happened;
  std::string remedy;
  std::optional<int> peer = std::nullopt;
};

/// Throws the error of that kind, in the name of `self` while it did `op`.
[[noreturn]] void raise(const Failure& failure, const Member& self, const std::string& op);

/// "5 s", "0.25 s"
std::string seconds(std::chrono::steady_clock::duration time);

}  // namespace lockstep::rendezvous
