#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "host/turns.h"

namespace lockstep::comm {

/// What a backend is made from.
struct BackendContext {
  c10::intrusive_ptr<c10d::Store> store;  ///< keys of this group alone
  int rank = 0;
  int size = 1;
  int local_rank = 0;    ///< among the ranks of its host, whatever the group
  bool one_host = true;  ///< all members run on this host
  std::string address;   ///< of this host, as the other members reach it; empty: loopback will do
  std::chrono::milliseconds timeout{};
  std::vector<int> host_of_rank;  ///< by rank, counted from 0 within the group
  /// Of the members on this host; null when this is the only one or they share no memory, and then
  /// `no_memory` says why.
  std::shared_ptr<host::Turns> turns;
  std::shared_ptr<host::Arena> arena;
  std::string no_memory;
};

/// One row a backend. A backend is a c10d::Backend whose `abort()` ends every pending operation
/// with an error. Its calls come one at a time, but for send and recv.
struct BackendEntry {
  const char* name;
  /// Why it cannot serve this group on this machine; empty when it can.
  std::string (*why_not)(const BackendContext&);
  c10::intrusive_ptr<c10d::Backend> (*create)(const BackendContext&);
  /// It meets in the group's turns, where calls are compared: no agreement is needed before.
  bool checks_itself = false;
  /// It reads the members' tensors where `Group::empty` has put them.
  bool shares_memory = false;
  /// It takes ReduceOp::AVG; for others the sum is divided afterwards.
  bool averages = false;
  /// Its works are under way on a device's stream when the call returns. The others block.
  bool on_stream = false;
  /// Where the backend's own launcher connects the ranks before they have met: collective over all
  /// of them, every rank's text by rank. nullptr elsewhere. Throws UsageError for the reason that
  /// `why_not` gives.
  std::vector<std::string> (*gather_before_meeting)(const std::string& mine,
                                                    std::chrono::milliseconds limit) = nullptr;
};

/// All backends built into this library, the preferred first.
const std::vector<BackendEntry>& backends();

/// Throws UsageError, naming the backends there are, when `name` is none of them nor "auto".
void check_backend_name(const std::string& name);

/// The row called `name`, which is one of them.
const BackendEntry& entry_called(const std::string& name);

/// The backend called `name`, or with "auto" the first that can serve the group.
/// Throws UsageError naming the backends there are, or saying why this one cannot run here.
const BackendEntry& choose_backend(const std::string& name, const BackendContext& context);

}  // namespace lockstep::comm
