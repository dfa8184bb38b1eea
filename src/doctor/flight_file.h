#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::doctor {

/// One call as a rank made it.
struct Call {
  int rank = 0;  ///< in the world
  std::string group;
  std::uint64_t sequence = 0;  ///< within its group
  std::string op;
  std::string reduce_op;
  std::string dtype;
  std::vector<std::int64_t> dims;
  int root = -1;
  std::string tag;
  std::string file;
  std::uint32_t line = 0;
  std::string state;  ///< "waiting", "done", "failed"
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;

  /// Would the ranks agree on it? Whatever its number and place.
  bool same_as(const Call& other) const;

  /// Calls of all members, which are numbered alike on each of them.
  bool collective() const { return op != "send" && op != "recv" && op != "new_group"; }

  /// "all_reduce(sum, float32[4], "bucket 0")".
  std::string text() const;
  /// "train.cpp:30".
  std::string place() const;
};

struct Member {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::string state;  ///< of its process; empty on another host
  std::string gone;   ///< "lost", "left" or empty
};

/// The call that failed.
struct Failure {
  std::string kind;
  std::string text;
  std::string op;
  std::uint64_t sequence = 0;
  std::string group;
  std::vector<int> members;  ///< ranks in the world
};

/// What a rank wrote when a call failed there; docs/doctor.md describes the file.
struct FlightFile {
  std::filesystem::path path;
  std::string job;
  int attempt = 0;
  int rank = 0;
  int world_size = 0;
  std::string host;
  Failure error;
  std::int64_t written_ns = 0;
  std::vector<Member> members;
  std::vector<Call> calls;
};

/// Throws DataError that names the file, and what is wrong with it.
FlightFile read_flight_file(const std::filesystem::path& path);

}  // namespace lockstep::doctor
