#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/answerer.h"
#include "comm/flight_record.h"
#include "comm/host_memory.h"
#include "comm/hosts.h"
#include "comm/identity.h"
#include "comm/membership.h"
#include "rendezvous/meet.h"

namespace lockstep::comm {

/// What all groups of one process in one job share: who it is, the store, and who is gone.
/// Several worlds can live in one process (ranks as threads).
struct World {
  Identity identity;
  rendezvous::Meeting meeting;  ///< empty in a world of one
  Membership membership;
  c10::intrusive_ptr<c10d::Store> store;
  Hosts hosts;
  HostMemory host_memory;
  FlightRecord flight_record;
  std::unique_ptr<Answerer> answerer;  ///< null without a launcher that asks

  /// Sub-groups made so far, counted by other member and by list of ranks: see Group::new_group.
  std::mutex groups_mutex;
  std::map<int, std::uint64_t> groups_with;
  std::map<std::string, std::uint64_t> groups_of;

  /// Local. Whether all of `ranks` run on one host.
  bool one_host(const std::vector<int>& ranks) const;

  /// Leaves, unless an exception is what ends this world: then the others must not wait.
  ~World();

  /// Tells the others that this process goes in order, once. The rank that serves the store goes
  /// last: it gives the others up to 3 s to finish what they still ask of it.
  void leave() noexcept;

 private:
  std::atomic<bool> left_{false};
};

/// Meets the other ranks. Collective.
std::shared_ptr<World> make_world(const InitOptions& options);

}  // namespace lockstep::comm
