#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "host/arena.h"
#include "host/recorder.h"

namespace lockstep::comm {

/// What the ranks of the world that run on this host share.
struct HostMemory {
  std::shared_ptr<host::Segment> segment;  ///< null when there is none: `why_not` says the reason
  std::shared_ptr<host::Arena> arena;      ///< this rank's part
  std::string why_not;
  /// By rank in the world: this rank's own, and those of this host that can be read.
  std::map<int, std::shared_ptr<host::Recorder>> recorders;
};

/// Collective over the world. `host_of_rank`: equal numbers are one host. The memory is anonymous,
/// or a file in the folder LOCKSTEP_SHM_DIR, or where neither can be shared a file in /dev/shm.
HostMemory share_host_memory(Exchange& exchange, const std::vector<int>& host_of_rank, int rank,
                             std::chrono::milliseconds limit);

/// That of a rank alone in its world.
HostMemory own_memory(int rank);

}  // namespace lockstep::comm
