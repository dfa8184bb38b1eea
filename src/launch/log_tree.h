#pragma once
#include <filesystem>
#include <string>

#include "base/fd.h"
#include "launch/run_options.h"

namespace lockstep::launch {

/// The log files of a job: <folder>/<run id>_<random>/attempt_<n>/<local
/// rank>/{stdout.log,stderr.log,error.json} and attempt_<n>/filtered_{stdout,stderr}.log. Nothing
/// is made until files are asked for; then the worker's error.json lies there too, else in the
/// job's private folder.
class LogTree {
 public:
  /// `private_folder` takes error files when no logs are wanted.
  LogTree(const RunOptions& options, const std::string& run_id,
          const std::filesystem::path& private_folder);

  /// Starts an attempt: makes its folder. Throws UsageError when it cannot.
  void begin_attempt(int attempt, int local_world_size);

  bool wanted() const { return wanted_; }
  const std::filesystem::path& job_folder() const { return job_folder_; }

  /// Where workers leave their flight records; empty where there are no log files.
  std::filesystem::path flight_folder() const;

  std::filesystem::path error_file(int local_rank) const;
  std::filesystem::path stream_file(int local_rank, Streams stream) const;
  std::filesystem::path filtered_file(Streams stream) const;

 private:
  std::filesystem::path attempt_folder_;
  std::filesystem::path job_folder_;
  bool wanted_;
  bool discard_;  // --log-dir /dev/null
};

/// Creates or empties a file for writing. Throws UsageError naming it.
base::Fd create_file(const std::filesystem::path& path);

}  // namespace lockstep::launch
