#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace lockstep::launch {

/// How one worker ended, with all that the report says about it.
struct WorkerOutcome {
  int rank = 0;
  int local_rank = 0;
  std::string host;
  int pid = 0;
  std::string program;
  base::ExitStatus status = base::ExitStatus::exited(0);
  double seconds = 0;              ///< from its start to its end
  double ended_at = 0;             ///< seconds from the attempt's start
  bool told_to_stop = false;       ///< it ended after the launcher had asked it to
  std::string cause;               ///< what the status alone does not say, such as "out of memory"
  std::string error;               ///< the message of its error.json, or empty
  std::string error_file_content;  ///< all of it
  std::vector<std::string> last_lines;
  std::string last_lines_of;  ///< "stderr" or "stdout"
  std::string log_file;       ///< where all of that stream is, or empty

  /// A failure in its own right: not an end that the launcher asked for.
  bool failed() const;
  /// It says that another rank was lost: a consequence, not the cause.
  bool blames_a_peer() const;
};

/// How one attempt of the job ended.
struct AttemptOutcome {
  int attempt = 0;
  int node = 0;                         ///< whose launcher says so
  std::vector<WorkerOutcome> failures;  ///< root cause first
  std::vector<int> stopped;             ///< ranks that the launcher stopped
  int signal = 0;                       ///< sent to the launcher, when that ended the attempt
  std::string launcher_error;           ///< what kept the launcher itself from going on
  int launcher_code = 0;                ///< the exit code for that

  bool success() const { return failures.empty() && signal == 0 && launcher_error.empty(); }
  /// What `lockstep run` exits with.
  int exit_code() const;
};

/// Sorts out how the workers of an attempt ended: the cause, further failures, those that were
/// stopped. `ended` is in the order in which they ended.
AttemptOutcome judge(int attempt, const std::vector<WorkerOutcome>& ended, int signal);

/// "rank 2", "ranks 0, 1, 3", "ranks 0-7, 9".
std::string rank_list(std::vector<int> ranks);

}  // namespace lockstep::launch
