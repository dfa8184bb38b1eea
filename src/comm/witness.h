#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"

namespace lockstep::comm {

/// "all_reduce #7 (sum, float32[4]) at train.cpp:30, begun 9.8 s ago".
std::string tell(const host::CallRecord& call);

/// What can be told of a group's members when something goes wrong: who they are, what they do, and
/// what they called last. Of ranks on other hosts only who they are. Thread-safe.
class Witness {
 public:
  Witness(std::shared_ptr<World> world, std::string group, std::vector<int> world_ranks);

  /// "rank 1 (host b, pid 4711), asleep; last call: all_gather #4 ... at x.cpp:33, done 9.8 s ago"
  std::string tell_of(int rank) const;

  /// One line a member, as above.
  std::string tell_of_all(const std::vector<int>& ranks) const;

  /// That not all members made the same call number `sequence`: the first two that differ, with
  /// the last calls of both when they are different operations.
  std::string disagreement(std::uint64_t sequence) const;

 private:
  std::shared_ptr<host::Recorder> recorder_of(int rank) const;
  std::optional<host::CallRecord> last_call(int rank) const;
  std::string last_calls(int rank) const;

  std::shared_ptr<World> world_;
  std::string group_;
  std::vector<int> world_ranks_;
};

}  // namespace lockstep::comm
