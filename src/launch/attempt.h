#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/poller.h"
#include "base/process.h"
#include "launch/activity.h"
#include "launch/console.h"
#include "launch/diagnosis.h"
#include "launch/log_tree.h"
#include "launch/outcome.h"
#include "launch/program.h"
#include "launch/run_options.h"
#include "launch/worker_environment.h"
#include "launch/worker_stream.h"

namespace lockstep::launch {

/// What an attempt works with; all of it outlives the attempt.
struct AttemptContext {
  base::Poller& poller;
  Console& console;
  const RunOptions& options;
  const Program& program;
  const Job& job;
  LogTree& logs;
  unsigned long open_files;  ///< soft limit of descriptors that workers get
};

/// One start of this node's workers, until none of their whole process tree is left.
///
/// Every process below the launcher belongs to it: the launcher is the subreaper of its
/// descendants, so what a worker leaves behind comes back here, in whatever session it is.
/// Single-threaded: all happens in `start`, in handlers that the poller calls, and in `step`.
class Attempt {
 public:
  Attempt(const AttemptContext& context, const Placement& placement);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Starts all workers. Throws ExecError or InternalError when one cannot be; those before it are
  /// stopped.
  void start();

  /// Passes a signal on to every worker, once.
  void forward(int signal);

  /// Asks all to end by `signal`, and kills what is left when the grace is over. Stopped (SIGSTOP)
  /// processes cannot obey and are killed at once. A second call changes nothing.
  void stop(int signal);

  /// Kills all at once.
  void kill();

  /// A child has ended, or the time of `deadline` has come, or output has drained: goes on.
  void step();

  /// When `step` must be called at the latest; nothing: only events matter.
  const std::optional<base::Deadline>& deadline() const { return deadline_; }

  /// Nobody of the tree is left.
  bool finished() const { return phase_ == Phase::kFinished; }

  /// Those that ended so far, in the order in which they did.
  const std::vector<WorkerOutcome>& ended() const { return ended_; }

  int alive() const;

  /// The workers that have not ended.
  std::vector<RunningWorker> running() const;

  /// Is it being ended: by a failure, by `stop` or `kill`?
  bool ending() const { return phase_ != Phase::kRunning && phase_ != Phase::kSettling; }

  /// Why the program could not be executed at all, with 126 or 127; found out when a worker ends.
  const std::optional<ProgramError>& program_error() const { return program_error_; }

 private:
  struct Worker {
    int local_rank = 0;
    base::Process process;
    base::Deadline::Clock::time_point started;
    std::unique_ptr<WorkerStream> out;
    std::unique_ptr<WorkerStream> err;
    std::filesystem::path error_file;
    bool told_to_stop = false;
    std::optional<std::size_t> outcome;  ///< index into ended_, once it ended
  };

  /// kSettling: a worker failed that blames another one, which gets a moment to fail by itself.
  enum class Phase { kRunning, kSettling, kStopping, kKilling, kFinished };

  void start_worker(int local_rank);
  StreamRoute route(int local_rank, Streams stream) const;
  std::string prefix(int local_rank) const;
  void watch(WorkerStream& stream);
  void apply_back_pressure();
  void on_end(Worker& worker);
  void note_exec_failure(int error);
  void describe_output(const Worker& worker, WorkerOutcome& outcome) const;
  void on_failure(const WorkerOutcome& outcome);
  void end_orphans();
  void on_time();
  void reap_orphans();
  void finish();

  AttemptContext context_;
  Placement placement_;
  base::ExecFailures exec_failures_;
  std::optional<ProgramError> program_error_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<WorkerOutcome> ended_;
  std::unique_ptr<LineFilter> out_filter_;
  std::unique_ptr<LineFilter> err_filter_;
  SystemBefore before_;
  int usable_cpus_;
  base::Deadline::Clock::time_point began_;
  Phase phase_ = Phase::kRunning;
  bool orphans_ = false;  ///< descendants besides the workers were there at the last look
  bool orphans_told_ = false;
  bool reading_ = true;
  std::optional<base::Deadline> deadline_;       ///< of the present phase
  std::optional<base::Deadline> kill_deadline_;  ///< what lives then cannot be killed
};

}  // namespace lockstep::launch
