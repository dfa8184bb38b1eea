#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "host/recorder.h"

namespace lockstep::comm {

struct World;

/// The call that failed, and how.
struct Failure {
  std::string kind;  ///< "PeerLost"
  std::string text;
  std::string op;
  std::uint64_t sequence = 0;
  std::string group;
  std::string backend;
  std::vector<int> members;  ///< of the group, by their ranks in the world
};

/// Writes what the ranks of this host called last into a file, which `lockstep doctor` reads.
/// One a world; docs/doctor.md has the file's fields. Thread-safe.
class FlightRecord {
 public:
  /// Returns the file that tells of `failure`: a new one, or the last where the failure is a mere
  /// consequence of the one told there, as no call went well in between. Empty when none could be
  /// written. Takes milliseconds; never throws.
  std::string write(const World& world, const Failure& failure) noexcept;

 private:
  std::mutex mutex_;
  std::int64_t written_ns_ = 0;
  std::string path_;
  bool warned_ = false;
};

/// The same error with the file's name in its context and text, once `world`'s flight record tells
/// of it. `failure` has all but kind and text. A UsageError, which concerns this rank's call alone,
/// and what is no lockstep::Error come back as they are.
std::exception_ptr recorded(const std::exception_ptr& error, World& world, Failure failure);

/// The folder of flight records: $LOCKSTEP_FLIGHT_DIR, else one of this user below $TMPDIR or /tmp.
struct FlightFolder {
  std::filesystem::path path;
  bool shared_by_jobs = false;  ///< the oldest records there are removed in time
};
FlightFolder flight_folder();

}  // namespace lockstep::comm
