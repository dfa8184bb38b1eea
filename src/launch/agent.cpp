#include "launch/agent.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <vector>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/cpu_set.h"
#include "base/held_port.h"
#include "base/host.h"
#include "base/log.h"
#include "base/poller.h"
#include "base/signals.h"
#include "base/thread_name.h"
#include "launch/attempt.h"
#include "launch/console.h"
#include "launch/inquiry.h"
#include "launch/meeting_place.h"
#include "launch/nodes.h"
#include "launch/report.h"

namespace lockstep::launch {
namespace {

using base::concat;

// How long an agent whose guardian was killed waits for the others to take note.
constexpr auto kFarewell = std::chrono::milliseconds(500);

// A job of one node needs to agree with nobody.
Agreement agree_alone(const RunOptions& options) {
  Agreement agreement;
  agreement.job.id = base::random_hex(8);
  agreement.job.token = base::random_hex(16);
  agreement.job.run_id = chosen_port(options) ? options.rendezvous_id : agreement.job.id;
  agreement.placement.local_world_size = options.local_world_size;
  agreement.placement.world_size = options.local_world_size;
  return agreement;
}

std::optional<base::Deadline> earlier(const std::optional<base::Deadline>& left,
                                      const std::optional<base::Deadline>& right) {
  if (!left || !right) return left ? left : right;
  return left->time() < right->time() ? left : right;
}

class Agent {
 public:
  Agent(const AgentTask& task, unsigned long open_files)
      : task_(task),
        open_files_(open_files),
        signals_(base::awaitable_signals()),
        console_(poller_),
        inquiry_(poller_, task.folder.path()) {
    poller_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); });
    poller_.watch(task_.guardian, EPOLLIN, [this](std::uint32_t) { on_guardian_lost(); });
    if (task_.options.nodes == 1) return;
    nodes_ = std::make_unique<Nodes>(task_.options);
    poller_.watch(nodes_->event_fd(), EPOLLIN, [this](std::uint32_t) { nodes_->drain(); });
  }

  int run() {
    say_threads();
    for (int attempt = 0;; ++attempt) {
      attempts_.push_back(run_attempt(attempt));
      const AttemptOutcome& outcome = attempts_.back();
      const bool again =
          !outcome.failures.empty() && outcome.signal == 0 && attempt < task_.options.max_restarts;
      if (!again) break;
      console_.line(Console::kErr, restart_notice(outcome, task_.options.max_restarts));
    }
    report();
    if (guardian_lost_) task_.folder.remove();
    return attempts_.back().exit_code();
  }

 private:
  AttemptOutcome run_attempt(int number) {
    const std::optional<Agreement> agreement =
        nodes_ ? agree_with_others(number) : place_alone(number);
    if (!agreement) return without_agreement(number);
    if (!logs_) logs_.emplace(task_.options, agreement->job.run_id, task_.folder.path());
    Placement placement = agreement->placement;
    placement.inquiry = inquiry_.path();
    placement.flight_folder = logs_->flight_folder().string();
    Attempt attempt(
        {poller_, console_, task_.options, task_.program, agreement->job, *logs_, open_files_},
        placement);
    current_ = &attempt;
    launcher_error_.clear();
    try {
      attempt.start();
    } catch (const Error& error) {
      launcher_error_ = error.what();
      attempt.kill();
    }
    told_ = false;
    for (;;) {
      attempt.step();
      // Before each wait: the others' word may have come together with the agreement.
      if (nodes_) follow_others(attempt, number);
      if (attempt.finished()) break;
      poller_.wait(earlier(attempt.deadline(), inquiry_.deadline()));
      inquiry_.step();
    }
    current_ = nullptr;
    AttemptOutcome outcome = outcome_of(attempt, number);
    return nodes_ ? agreed_outcome(std::move(outcome)) : outcome;
  }

  AttemptOutcome outcome_of(const Attempt& attempt, int number) const {
    AttemptOutcome outcome = judge(number, attempt.ended(), signal_);
    outcome.node = task_.options.node_rank;
    if (const auto& error = attempt.program_error()) {
      // What the workers ended with says less than why none could start.
      outcome.failures.clear();
      outcome.launcher_error = error->what();
      outcome.launcher_code = error->exit_code();
    } else if (!launcher_error_.empty()) {
      outcome.launcher_error = launcher_error_;
      outcome.launcher_code = kExitFailure;
    }
    return outcome;
  }

  AttemptOutcome launcher_killed(int number) const {
    AttemptOutcome outcome;
    outcome.attempt = number;
    outcome.node = task_.options.node_rank;
    outcome.launcher_error =
        concat("the launcher of node ", outcome.node, " (host ", base::host_name(), ") was killed");
    outcome.launcher_code = 128 + SIGKILL;
    return outcome;
  }

  std::optional<Agreement> place_alone(int attempt) {
    if (attempt == 0) alone_ = agree_alone(task_.options);
    Placement& placement = alone_.placement;
    placement.attempt = attempt;
    // A new port for each attempt: nothing of the one before can be mistaken for it.
    if (!task_.fixed_port) port_ = std::make_unique<base::HeldPort>();
    placement.master_port = task_.fixed_port ? *task_.fixed_port : port_->number();
    placement.rendezvous =
        concat("unix:", (task_.folder.path() / concat("rendezvous.", attempt)).string());
    return alone_;
  }

  // Waits for the other nodes; nothing when that failed or a signal ended it.
  std::optional<Agreement> agree_with_others(int attempt) {
    nodes_->begin(attempt);
    base::log(base::LogLevel::kInfo, "waiting for the other nodes");
    while (!nodes_->agreement() && nodes_->failure().empty() && signal_ == 0)
      poller_.wait(std::nullopt);
    return signal_ == 0 ? nodes_->agreement() : std::nullopt;
  }

  AttemptOutcome without_agreement(int attempt) {
    AttemptOutcome outcome;
    outcome.attempt = attempt;
    outcome.node = task_.options.node_rank;
    outcome.signal = signal_;
    outcome.launcher_error = nodes_->failure();
    outcome.launcher_code = kExitFailure;
    // The meeting cannot be interrupted; this process ends right after, and its thread with it.
    if (outcome.launcher_error.empty()) static_cast<void>(nodes_.release());
    return outcome;
  }

  // Tells the others of a failure here, and ends the attempt when it ended elsewhere.
  void follow_others(Attempt& attempt, int number) {
    if (attempt.ending() && !told_) {
      told_ = true;
      const AttemptOutcome outcome =
          guardian_lost_ ? launcher_killed(number) : outcome_of(attempt, number);
      if (!outcome.success()) nodes_->tell_failure(outcome);
    }
    const auto end = nodes_->end();
    if ((end && !end->success()) || !nodes_->failure().empty()) {
      told_ = true;
      attempt.stop(end && end->signal != 0 ? end->signal : SIGTERM);
    }
  }

  // What the whole job's attempt came to, which all nodes report alike.
  AttemptOutcome agreed_outcome(AttemptOutcome here) {
    if (guardian_lost_) {
      // The others have been told; a goodbye before they know would look like a loss.
      const auto limit = base::Deadline::in(kFarewell);
      while (!nodes_->end() && nodes_->failure().empty() && !limit.expired()) poller_.wait(limit);
      return here;
    }
    if (here.success() && signal_ == 0) nodes_->tell_success(here.attempt);
    if (!here.success() && !told_) nodes_->tell_failure(here);
    const int before = signal_;
    while (!nodes_->end() && nodes_->failure().empty() && signal_ == before)
      poller_.wait(std::nullopt);
    if (signal_ != before) {
      here.signal = signal_;
      nodes_->tell_failure(here);
      return here;
    }
    const auto end = nodes_->end();
    if (!end) {
      here.launcher_error = nodes_->failure();
      here.launcher_code = kExitFailure;
      if (here.failures.empty()) return here;
      // Workers that lost their peers on that node are a consequence.
      for (const WorkerOutcome& worker : here.failures) here.stopped.push_back(worker.rank);
      here.failures.clear();
      return here;
    }
    if (end->node == here.node || end->success()) return here;
    AttemptOutcome all = *end;
    all.failures.insert(all.failures.end(), here.failures.begin(), here.failures.end());
    all.stopped = here.stopped;
    return all;
  }

  void on_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal != SIGCHLD) on_signal(*signal);
    }
  }

  void on_signal(int signal) {
    const auto& handled = task_.options.handled_signals;
    const bool named = std::find(handled.begin(), handled.end(), signal) != handled.end();
    if (!named && signal == SIGQUIT) return tell_activity();
    if (!named && (signal == SIGUSR1 || signal == SIGUSR2)) {
      if (current_ != nullptr) current_->forward(signal);
      return;
    }
    if (signal_ != 0) {
      if (signal == SIGINT && current_ != nullptr) current_->kill();
      return;
    }
    signal_ = signal;
    if (current_ == nullptr || current_->alive() == 0) return;
    console_.line(Console::kErr,
                  concat("lockstep: ", base::signal_name(signal), ": stopping ", current_->alive(),
                         current_->alive() == 1 ? " worker" : " workers", ", for up to ",
                         task_.options.grace.count(), " s",
                         signal == SIGINT ? "; Ctrl-C again kills them at once" : ""));
    current_->stop(named ? signal : SIGTERM);
  }

  void tell_activity() {
    inquiry_.ask([this](const Inquiry::Told& told) {
      const auto workers = current_ != nullptr ? current_->running() : std::vector<RunningWorker>();
      console_.text(Console::kErr, activity_text(workers, told));
    });
  }

  void on_guardian_lost() {
    poller_.forget(task_.guardian);
    guardian_lost_ = true;
    signal_ = SIGKILL;
    if (current_ != nullptr) current_->kill();
  }

  void say_threads() const {
    const int workers = task_.options.local_world_size;
    if (base::Env::of_process().has("OMP_NUM_THREADS")) return;
    const int cpus = base::usable_cpus();
    const auto threads =
        threads_per_worker(cpus, static_cast<int>(base::allowed_cpus().size()), workers);
    if (!threads) return;
    base::log(base::LogLevel::kInfo,
              concat("OMP_NUM_THREADS is not set: ", *threads, " for each of ", workers,
                     " workers on ", cpus, " usable processors"));
  }

  void report() {
    const AttemptOutcome& last = attempts_.back();
    if (!last.success() && !guardian_lost_) {
      console_.text(Console::kErr, failure_report(attempts_, console_.is_terminal(Console::kErr)));
      const auto upwards = base::Env::of_process().text("TORCHELASTIC_ERROR_FILE");
      if (upwards && !last.failures.empty()) write_error_file(*upwards, last.failures.front());
    }
    if (logs_ && logs_->wanted() && !guardian_lost_ && task_.options.log_folder.empty())
      console_.line(Console::kErr,
                    concat("lockstep: log files are in ", logs_->job_folder().string()));
    // A pager may take its time; a signal ends the wait.
    const int before = signal_;
    while (!console_.drained() && signal_ == before) poller_.wait(std::nullopt);
  }

  const AgentTask& task_;
  unsigned long open_files_;  // the limit that workers get
  base::Poller poller_;
  base::SignalFd signals_;  // before any thread: they inherit that the signals are blocked
  Console console_;
  Inquiry inquiry_;
  std::unique_ptr<Nodes> nodes_;  // of a job on several nodes
  Agreement alone_;
  std::unique_ptr<base::HeldPort> port_;
  std::optional<LogTree> logs_;
  std::vector<AttemptOutcome> attempts_;
  Attempt* current_ = nullptr;
  std::string launcher_error_;
  int signal_ = 0;     // that ended the job
  bool told_ = false;  // the other nodes know how the attempt ended here
  bool guardian_lost_ = false;
};

}  // namespace

int run_agent(const AgentTask& task) {
  base::name_this_thread("ls-agent");
  // In a session of its own, so that a signal to the launcher's process group comes once, from the
  // guardian.
  base::lead_session();
  base::become_subreaper();
  return Agent(task, base::raise_open_files_limit()).run();
}

}  // namespace lockstep::launch
