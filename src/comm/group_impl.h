#pragma once
#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/agreement.h"
#include "comm/device_backends.h"
#include "comm/exchange.h"
#include "comm/progress.h"
#include "comm/witness.h"
#include "comm/world.h"
#include "lockstep/comm.h"

namespace lockstep {

/// One group of one process.
class Group::Impl {
 public:
  Impl(std::shared_ptr<comm::World> world, std::string name, std::vector<int> world_ranks,
       const std::string& backend, std::chrono::milliseconds timeout);

  /// One call as this rank made it: what errors tell and, across ranks, what must agree.
  struct Call {
    host::CallRecord record;
    std::uint64_t number;    ///< of its record
    c10::DeviceType device;  ///< of its tensor
    SourceLocation where;
    base::Deadline deadline;
  };

  /// What a call is about, beside its place.
  struct Topic {
    const char* op;
    const at::Tensor* tensor = nullptr;  ///< whose dtype and shape must agree
    const char* reduce_op = "";
    int root = -1;  ///< or the peer
    bool any_shape = false;
    bool of_all = true;  ///< every member makes it: it counts in the group's sequence
  };

  /// Numbers and records the call. Throws PeerLost when a member is already gone.
  Call begin(const Topic& topic, const CallOptions& options, SourceLocation where);

  /// Collective. Before the backend's part of a call: all members are in the same one.
  void agree(const Call& call);

  /// Records how the call ended.
  void end(const Call& call, bool well) noexcept;

  ErrorContext context(const Call& call) const;

  /// Turns what a backend, the turns or the store threw into lockstep's kinds, and leaves a flight
  /// record of it; the one place that does.
  std::exception_ptr translate(std::exception_ptr error, const Call& call) const;

  std::shared_ptr<comm::World> world;
  std::string name;
  std::vector<int> world_ranks;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Store> store;
  comm::Exchange exchange;
  comm::GroupHosts hosts;
  std::shared_ptr<host::Turns> turns;  ///< of this host's members; null when they share no memory
  std::shared_ptr<comm::DeviceBackends> backends;

 private:
  comm::GroupHosts find_hosts() const;
  std::shared_ptr<host::Turns> make_turns();
  std::exception_ptr kind_of(const std::exception_ptr& error, const Call& call) const;
  std::exception_ptr recorded(const std::exception_ptr& error, const Call& call) const;
  std::optional<comm::Loss> loss_behind(const std::string& text) const;
  PeerLost peer_lost(const comm::Loss& loss, const Call& call) const;
  TimeoutError timed_out(const std::string& text, const Call& call) const;

  std::shared_ptr<comm::Witness> witness_;
  std::shared_ptr<host::Recorder> recorder_;
  std::unique_ptr<comm::Agreement> agreement_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> sequence_of_some_{0};
  std::shared_ptr<void> subscription_;

 public:
  comm::Progress progress;  ///< last: what it runs uses the rest
};

struct Work::State {
  std::shared_ptr<Group::Impl> group;
  Group::Impl::Call call;
  std::shared_ptr<comm::Operation> operation;  ///< in the group's queue; null for what is not
  c10::intrusive_ptr<c10d::Work> pending;      ///< what the backend has under way
  std::function<void()> finish;                ///< runs once, after the transfer
  bool done = false;
  std::exception_ptr error;
};

}  // namespace lockstep
