#include "launch/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/held_port.h"
#include "base/host.h"
#include "base/log.h"
#include "base/poller.h"
#include "base/signals.h"
#include "base/thread_name.h"
#include "launch/attempt.h"
#include "launch/console.h"
#include "launch/report.h"

namespace lockstep::launch {
namespace {

using base::concat;

Job new_job(const RunOptions& options) {
  Job job;
  job.id = base::random_hex(8);
  job.token = base::random_hex(16);
  const bool named =
      options.nodes > 1 || !options.rendezvous_endpoint.empty() || options.master_port;
  job.run_id = named ? options.rendezvous_id : job.id;
  return job;
}

class Agent {
 public:
  Agent(const AgentTask& task, unsigned long open_files)
      : task_(task),
        open_files_(open_files),
        signals_(base::awaitable_signals()),
        console_(poller_, STDOUT_FILENO, STDERR_FILENO),
        job_(new_job(task.options)),
        logs_(task.options, job_.run_id, task.folder.path()) {
    poller_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); });
    poller_.watch(task_.guardian, EPOLLIN, [this](std::uint32_t) { on_guardian_lost(); });
  }

  int run() {
    say_threads();
    for (int attempt = 0;; ++attempt) {
      attempts_.push_back(run_attempt(attempt));
      const AttemptOutcome& outcome = attempts_.back();
      const bool again =
          !outcome.failures.empty() && signal_ == 0 && attempt < task_.options.max_restarts;
      if (!again) break;
      console_.line(Console::kErr, restart_notice(outcome, task_.options.max_restarts));
    }
    report();
    return attempts_.back().exit_code();
  }

 private:
  AttemptOutcome run_attempt(int number) {
    const Placement placement = place(number);
    Attempt attempt({poller_, console_, task_.options, task_.program, job_, logs_, open_files_},
                    placement);
    current_ = &attempt;
    std::string launcher_error;
    try {
      attempt.start();
    } catch (const Error& error) {
      launcher_error = error.what();
    }
    if (!launcher_error.empty()) attempt.kill();
    attempt.step();
    while (!attempt.finished()) {
      poller_.wait(attempt.deadline());
      attempt.step();
    }
    current_ = nullptr;
    AttemptOutcome outcome = judge(number, attempt.ended(), signal_);
    if (const auto& error = attempt.program_error()) {
      // What the workers ended with says less than why none could start.
      outcome.failures.clear();
      outcome.launcher_error = error->what();
      outcome.launcher_code = error->exit_code();
    } else if (!launcher_error.empty()) {
      outcome.launcher_error = launcher_error;
      outcome.launcher_code = kExitFailure;
    }
    return outcome;
  }

  Placement place(int attempt) {
    const RunOptions& options = task_.options;
    Placement placement;
    placement.attempt = attempt;
    placement.local_world_size = options.local_world_size;
    placement.world_size = options.local_world_size;
    // A new port for each attempt: nothing of the one before can be mistaken for it.
    if (!port_ || !options.master_port)
      port_ = std::make_unique<base::HeldPort>(options.master_port.value_or(0));
    placement.master_port = port_->number();
    placement.rendezvous =
        concat("unix:", (task_.folder.path() / concat("rendezvous.", attempt)).string());
    return placement;
  }

  void on_signals() {
    while (const auto signal = signals_.next()) {
      if (*signal != SIGCHLD) on_signal(*signal);
    }
  }

  void on_signal(int signal) {
    const auto& handled = task_.options.handled_signals;
    const bool named = std::find(handled.begin(), handled.end(), signal) != handled.end();
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
                         " workers, for up to ", task_.options.grace.count(), " s",
                         signal == SIGINT ? "; Ctrl-C again kills them at once" : ""));
    current_->stop(named ? signal : SIGTERM);
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
    base::log(base::LogLevel::kInfo,
              concat("OMP_NUM_THREADS is not set: ", threads_per_worker(cpus, workers),
                     " for each of ", workers, " workers on ", cpus, " usable processors"));
  }

  void report() {
    const AttemptOutcome& last = attempts_.back();
    if (!last.success() && !guardian_lost_) {
      console_.text(Console::kErr, failure_report(attempts_, console_.is_terminal(Console::kErr)));
      const auto upwards = base::Env::of_process().text("TORCHELASTIC_ERROR_FILE");
      if (upwards && !last.failures.empty()) write_error_file(*upwards, last.failures.front());
    }
    if (logs_.wanted() && !guardian_lost_ && task_.options.log_folder.empty())
      console_.line(Console::kErr,
                    concat("lockstep: log files are in ", logs_.job_folder().string()));
    // A pager may take its time; a signal ends the wait.
    const int before = signal_;
    while (!console_.drained() && signal_ == before) poller_.wait(std::nullopt);
  }

  const AgentTask& task_;
  unsigned long open_files_;  // the limit that workers get
  base::Poller poller_;
  base::SignalFd signals_;
  Console console_;
  Job job_;
  LogTree logs_;
  std::unique_ptr<base::HeldPort> port_;
  std::vector<AttemptOutcome> attempts_;
  Attempt* current_ = nullptr;
  int signal_ = 0;  // that ended the job
  bool guardian_lost_ = false;
};

}  // namespace

int run_agent(const AgentTask& task) {
  base::name_this_thread("ls-agent");
  // In a session of its own, so that a signal to the launcher's process group comes once, from the
  // guardian.
  ::setsid();
  base::become_subreaper();
  return Agent(task, base::raise_open_files_limit()).run();
}

}  // namespace lockstep::launch
