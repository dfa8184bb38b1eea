#pragma once
#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/exchange.h"
#include "comm/registry.h"
#include "comm/world.h"
#include "lockstep/comm.h"

namespace lockstep {

/// One group of one process.
class Group::Impl {
 public:
  Impl(std::shared_ptr<comm::World> world, std::string name, std::vector<int> world_ranks,
       const std::string& backend, std::chrono::milliseconds timeout);

  /// One collective as this rank called it: what errors tell and, across ranks, what must agree.
  struct Call {
    const char* op;
    std::uint64_t sequence;
    std::source_location where;
    std::chrono::steady_clock::time_point begin;
    std::chrono::milliseconds timeout;
  };

  static constexpr const char* kSend = "send";
  static constexpr const char* kRecv = "recv";

  /// Numbers the call. Throws PeerLost when a member is already gone.
  Call begin(const char* op, const CallOptions& options, std::source_location where);

  ErrorContext context(const Call& call) const;

  /// Turns what a backend or the store threw into lockstep's kinds; the one place that does.
  std::exception_ptr translate(std::exception_ptr error, const Call& call) const;

  std::shared_ptr<comm::World> world;
  std::string name;
  std::vector<int> world_ranks;
  int rank = 0;
  int size = 1;
  std::string backend_name;
  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> backend;
  comm::Exchange exchange;

 private:
  std::optional<comm::Loss> loss_behind(const std::string& text) const;
  PeerLost peer_lost(const comm::Loss& loss, const Call& call) const;

  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> point_to_point_sequence_{0};
  std::shared_ptr<void> subscription_;
};

struct Work::State {
  c10::intrusive_ptr<c10d::Work> pending;
  std::shared_ptr<Group::Impl> group;
  Group::Impl::Call call;
  std::function<void()> finish;  ///< runs once, in the first wait, after the transfer
  bool done = false;
  std::exception_ptr error;
};

}  // namespace lockstep
