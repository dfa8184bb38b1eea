#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "doctor/flight_file.h"

namespace lockstep::doctor {

/// What several flight records of one job tell together.
class Story {
 public:
  /// At least one file. Throws DataError when they are of different jobs or attempts, or two are of
  /// one rank.
  explicit Story(std::vector<FlightFile> files);

  const std::vector<FlightFile>& files() const { return files_; }  ///< the first written first
  const std::string& job() const { return files_.front().job; }
  int attempt() const { return files_.front().attempt; }
  int world_size() const { return files_.front().world_size; }

  bool has_file(int rank) const;
  const FlightFile* file_of(int rank) const;

  /// The rank's collectives in a group, oldest first, from its own record or else a neighbour's.
  std::vector<Call> calls(int rank, const std::string& group) const;
  /// Of all groups and kinds.
  std::optional<Call> last_call(int rank) const;
  bool has_calls(int rank) const { return calls_.contains(rank); }

  /// Of a rank as the first file tells it that knows its state, else that knows of it at all.
  const Member* member(int rank) const;
  /// "rank 3 (host b, pid 4711)".
  std::string name(int rank) const;

 private:
  std::vector<FlightFile> files_;
  std::map<int, std::vector<Call>> calls_;
};

/// "rank 3", "ranks 0, 1 and 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace lockstep::doctor
