#include "launch/attempt.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/host.h"
#include "base/log.h"
#include "base/process_tree.h"
#include "base/signals.h"
#include "launch/cpu_binding.h"
#include "launch/line_prefix.h"

namespace lockstep::launch {
namespace {

using base::concat;
using base::Deadline;
using std::chrono::duration_cast;
using Clock = Deadline::Clock;

// How long a worker that blames a peer is taken to be a consequence: its peer needs this to end.
constexpr auto kSettle = std::chrono::milliseconds(300);

// SIGKILL works at once, but a fork that was under way needs another round.
constexpr auto kKillRound = std::chrono::milliseconds(10);

// What survives SIGKILL this long sits in the kernel (a dead file server, a driver): nobody can end
// it.
constexpr auto kKillLimit = std::chrono::seconds(10);

// Of the program's arguments, for the report.
constexpr std::size_t kLongestCommand = 300;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string command_text(const RunOptions& options) {
  std::string text = options.program;
  for (const std::string& argument : options.arguments) text += " " + argument;
  if (text.size() > kLongestCommand) text = text.substr(0, kLongestCommand) + " ...";
  return text;
}

}  // namespace

Attempt::Attempt(const AttemptContext& context, const Placement& placement)
    : context_(context),
      placement_(placement),
      before_(SystemBefore::now()),
      usable_cpus_(base::usable_cpus()),
      began_(Clock::now()) {}

Attempt::~Attempt() {
  for (const auto& worker : workers_) {
    if (worker->process.pidfd) context_.poller.forget(worker->process.pidfd.get());
    for (const WorkerStream* stream : {worker->out.get(), worker->err.get()})
      if (stream->source() >= 0) context_.poller.forget(stream->source());
  }
}

void Attempt::start() {
  const RunOptions& options = context_.options;
  context_.logs.begin_attempt(placement_.attempt, placement_.local_world_size);
  if (!options.stdout_filters.empty())
    out_filter_ = std::make_unique<LineFilter>(options.stdout_filters,
                                               context_.logs.filtered_file(Streams::kOut));
  if (!options.stderr_filters.empty())
    err_filter_ = std::make_unique<LineFilter>(options.stderr_filters,
                                               context_.logs.filtered_file(Streams::kErr));
  for (int local_rank = 0; local_rank < placement_.local_world_size; ++local_rank)
    start_worker(local_rank);
}

void Attempt::start_worker(int local_rank) {
  const RunOptions& options = context_.options;
  auto worker = std::make_unique<Worker>();
  worker->local_rank = local_rank;
  worker->out = std::make_unique<WorkerStream>(route(local_rank, Streams::kOut), context_.console);
  worker->err = std::make_unique<WorkerStream>(route(local_rank, Streams::kErr), context_.console);
  worker->error_file = context_.logs.error_file(local_rank);

  base::Command command;
  command.path = context_.program.path;
  command.arguments = context_.program.arguments;
  if (options.legacy_local_rank) command.arguments.push_back(concat("--local-rank=", local_rank));
  command.arguments.insert(command.arguments.end(), options.arguments.begin(),
                           options.arguments.end());
  command.environment =
      worker_environment(base::current_environment(), options, context_.job, placement_, local_rank,
                         worker->error_file, usable_cpus_);
  // One reader only: workers would take each other's input away.
  const base::Fd nothing = base::open_null();
  command.standard_input = local_rank == 0 ? 0 : nothing.get();
  command.standard_output = worker->out->worker_end();
  command.standard_error = worker->err->worker_end();
  command.open_files = context_.open_files;
  command.failure_report = exec_failures_.report_end();
  command.cpus = cpus_for_worker(options.cpu_binding, local_rank, placement_.local_world_size);

  worker->started = Clock::now();
  worker->process = base::spawn(command);
  worker->out->started();
  worker->err->started();
  Worker& kept = *workers_.emplace_back(std::move(worker));
  watch(*kept.out);
  watch(*kept.err);
  context_.poller.watch(kept.process.pidfd.get(), EPOLLIN,
                        [this, &kept](std::uint32_t) { on_end(kept); });
}

StreamRoute Attempt::route(int local_rank, Streams stream) const {
  const RunOptions& options = context_.options;
  const bool is_out = stream == Streams::kOut;
  const bool tee = options.tee.includes(local_rank, stream);
  const bool file_only = !tee && options.redirects.includes(local_rank, stream);
  const auto& filter = is_out ? out_filter_ : err_filter_;
  const auto& shown = options.shown_local_ranks;
  StreamRoute route;
  route.console = is_out ? Console::kOut : Console::kErr;
  route.shown = !file_only && (shown.empty() || shown.contains(local_rank));
  if (tee || file_only) route.file = context_.logs.stream_file(local_rank, stream);
  route.direct = file_only;
  if (!file_only) route.filter = filter.get();
  if (tee || !options.prefix_template.empty()) route.prefix = prefix(local_rank);
  const int first_shown = shown.empty() ? 0 : *shown.begin();
  const bool on_terminal = route.shown && context_.console.is_terminal(route.console);
  route.draws = on_terminal && local_rank == first_shown;
  // Alone on a terminal a program may as well have it: colours and line buffering stay as they are.
  route.inherited = on_terminal && is_out && placement_.local_world_size == 1 && !tee &&
                    !route.filter && route.prefix.empty();
  return route;
}

std::string Attempt::prefix(int local_rank) const {
  const std::string& wanted = context_.options.prefix_template;
  return expand_template(wanted.empty() ? "[${role_name}${rank}]:" : wanted,
                         {{"role_name", context_.options.role},
                          {"local_rank", std::to_string(local_rank)},
                          {"rank", std::to_string(placement_.rank_of(local_rank))},
                          {"hostname", base::host_name()}});
}

void Attempt::watch(WorkerStream& stream) {
  const int source = stream.source();
  if (source < 0) return;
  context_.poller.watch(source, EPOLLIN, [this, &stream, source](std::uint32_t) {
    if (!stream.read_some()) {
      context_.poller.forget(source);
      stream.close();
    }
    apply_back_pressure();
  });
}

// While the console's reader is slow, workers are made to wait by their pipes, which fill.
void Attempt::apply_back_pressure() {
  const bool read = !context_.console.congested();
  if (read == reading_) return;
  reading_ = read;
  for (const auto& worker : workers_) {
    for (WorkerStream* stream : {worker->out.get(), worker->err.get()}) {
      if (stream->source() < 0) continue;
      read ? watch(*stream) : context_.poller.forget(stream->source());
    }
  }
}

int Attempt::alive() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& worker) { return !worker->outcome; }));
}

std::vector<RunningWorker> Attempt::running() const {
  std::vector<RunningWorker> found;
  for (const auto& worker : workers_)
    if (!worker->outcome)
      found.push_back({placement_.rank_of(worker->local_rank), worker->process.pid,
                       seconds(Clock::now() - worker->started)});
  return found;
}

void Attempt::forward(int signal) {
  for (const auto& worker : workers_)
    if (!worker->outcome) base::send_signal(worker->process.pid, signal);
}

void Attempt::stop(int signal) {
  if (phase_ != Phase::kRunning && phase_ != Phase::kSettling) return;
  phase_ = Phase::kStopping;
  deadline_ = Deadline::in(duration_cast<Clock::duration>(context_.options.grace));
  std::vector<pid_t> groups;
  for (const auto& worker : workers_) {
    if (worker->outcome) continue;
    worker->told_to_stop = !worker->process.has_ended();
    groups.push_back(worker->process.pid);
    // One just forked has no group of its own yet.
    if (!base::send_signal_to_group(worker->process.pid, signal))
      base::send_signal(worker->process.pid, signal);
  }
  for (const base::ProcessEntry& entry : base::descendants(base::this_pid())) {
    if (entry.state == 'T') base::send_signal(entry.pid, SIGKILL);
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end())
      base::send_signal(entry.pid, signal);
  }
}

void Attempt::kill() {
  if (phase_ == Phase::kFinished) return;
  if (phase_ != Phase::kKilling) kill_deadline_ = Deadline::in(kKillLimit);
  phase_ = Phase::kKilling;
  deadline_ = Deadline::in(kKillRound);
  for (const auto& worker : workers_)
    if (!worker->outcome && !worker->process.has_ended()) worker->told_to_stop = true;
  for (const base::ProcessEntry& entry : base::descendants(base::this_pid()))
    base::send_signal(entry.pid, SIGKILL);
}

void Attempt::on_end(Worker& worker) {
  const auto now = Clock::now();
  context_.poller.forget(worker.process.pidfd.get());
  WorkerOutcome outcome;
  outcome.rank = placement_.rank_of(worker.local_rank);
  outcome.local_rank = worker.local_rank;
  outcome.host = base::host_name();
  outcome.pid = worker.process.pid;
  outcome.program = command_text(context_.options);
  outcome.seconds = seconds(now - worker.started);
  outcome.ended_at = seconds(now - began_);
  outcome.told_to_stop = worker.told_to_stop;
  outcome.status = worker.process.reap();
  if (outcome.status.code() == kExitNotFound) {
    if (const auto error = exec_failures_.of(outcome.pid)) note_exec_failure(*error);
  }
  if (!outcome.status.success()) {
    worker.out->read_some(LineBuffer::kLongest);
    worker.err->read_some(LineBuffer::kLongest);
    describe_output(worker, outcome);
    read_error_file(worker.error_file, outcome);
    outcome.cause = explain(outcome, before_);
  }
  worker.outcome = ended_.size();
  ended_.push_back(std::move(outcome));
  if (ended_.back().failed()) on_failure(ended_.back());
}

void Attempt::note_exec_failure(int error) {
  const UsageError reason = base::exec_error(context_.program.path, error);
  if (!program_error_)
    program_error_.emplace(error == ENOENT ? kExitNotFound : kExitNotExecutable, reason.happened(),
                           reason.remedy());
}

void Attempt::describe_output(const Worker& worker, WorkerOutcome& outcome) const {
  outcome.last_lines = worker.err->tail();
  const bool has_errors = !outcome.last_lines.empty();
  if (!has_errors) outcome.last_lines = worker.out->tail();
  outcome.last_lines_of = has_errors ? "stderr" : "stdout";
  const auto& file = has_errors ? worker.err->file() : worker.out->file();
  outcome.log_file = file ? file->string() : "";
}

void Attempt::on_failure(const WorkerOutcome& outcome) {
  if (phase_ != Phase::kRunning && phase_ != Phase::kSettling) return;
  if (!outcome.blames_a_peer() || alive() == 0) return stop(SIGTERM);
  if (phase_ == Phase::kSettling) return;
  phase_ = Phase::kSettling;
  deadline_ = Deadline::in(kSettle);
}

void Attempt::step() {
  apply_back_pressure();
  reap_orphans();
  if (phase_ == Phase::kFinished) return;
  if (alive() == 0) {
    if (!orphans_) return finish();
    end_orphans();
  }
  if (deadline_ && deadline_->expired()) on_time();
}

// Workers may leave processes behind, also ones forked while the signal to end was on its way.
void Attempt::end_orphans() {
  if (orphans_told_) return;
  orphans_told_ = true;
  if (phase_ != Phase::kStopping && phase_ != Phase::kKilling) return stop(SIGTERM);
  for (const base::ProcessEntry& entry : base::descendants(base::this_pid()))
    base::send_signal(entry.pid, SIGTERM);
}

void Attempt::on_time() {
  if (phase_ == Phase::kSettling) return stop(SIGTERM);
  if (phase_ == Phase::kStopping) {
    if (alive() > 0) {
      std::vector<int> ranks;
      for (const auto& worker : workers_)
        if (!worker->outcome) ranks.push_back(placement_.rank_of(worker->local_rank));
      context_.console.line(
          Console::kErr,
          concat("lockstep: ", rank_list(ranks), " still running after ",
                 context_.options.grace.count(), " s of grace (--shutdown-timeout): killed"));
    }
    return kill();
  }
  if (phase_ != Phase::kKilling) return;
  if (!kill_deadline_->expired()) return kill();
  for (const base::ProcessEntry& entry : base::descendants(base::this_pid()))
    context_.console.line(
        Console::kErr, concat("lockstep: process ", entry.pid, " does not die (state ", entry.state,
                              ": stuck in the kernel); leaving it behind"));
  finish();
}

void Attempt::reap_orphans() {
  for (;;) {
    const base::AnyChild child = base::look_for_ended_child();
    orphans_ = child.exists;
    if (child.ended == 0) return;
    const bool is_worker = std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
      return !worker->outcome && worker->process.pid == child.ended;
    });
    // A worker's end is told by its pidfd, in order; step is called again then.
    if (is_worker) return;
    base::reap_orphan(child.ended);
  }
}

void Attempt::finish() {
  phase_ = Phase::kFinished;
  deadline_.reset();
  for (const auto& worker : workers_) {
    for (WorkerStream* stream : {worker->out.get(), worker->err.get()}) {
      if (stream->source() >= 0) context_.poller.forget(stream->source());
      stream->finish();
    }
    if (worker->outcome && !ended_[*worker->outcome].status.success())
      describe_output(*worker, ended_[*worker->outcome]);
  }
}

}  // namespace lockstep::launch
