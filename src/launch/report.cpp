#include "launch/report.h"

#include <iomanip>
#include <sstream>

#include "base/concat.h"
#include "base/signals.h"

namespace lockstep::launch {
namespace {

using base::concat;

class Painter {
 public:
  explicit Painter(bool on) : on_(on) {}
  std::string strong(const std::string& text) const { return paint("1;31", text); }
  std::string faint(const std::string& text) const { return paint("2", text); }

 private:
  std::string paint(const char* code, const std::string& text) const {
    return on_ ? concat("\x1b[", code, "m", text, "\x1b[0m") : text;
  }
  bool on_;
};

std::string seconds(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(value < 10 ? 2 : 1) << value << " s";
  return std::move(text).str();
}

std::string how(const WorkerOutcome& worker) {
  return worker.status.signal() != 0 ? concat("died of ", worker.status.text())
                                     : concat("ended with ", worker.status.text());
}

void row(std::ostringstream& out, const char* name, const std::string& value) {
  if (value.empty()) return;
  // Further lines of a value stand below its first.
  std::string indented;
  for (const char letter : value)
    indented += letter == '\n' ? std::string("\n            ") : std::string(1, letter);
  out << "  " << std::left << std::setw(10) << name << indented << '\n';
}

std::string rank_text(const WorkerOutcome& worker) {
  return concat("rank ", worker.rank, " (local rank ", worker.local_rank, ", host ", worker.host,
                ", pid ", worker.pid, ")");
}

void write_cause(std::ostringstream& out, const WorkerOutcome& cause, const Painter& painter) {
  out << painter.strong(concat("lockstep: rank ", cause.rank, " failed: ", how(cause), " after ",
                               seconds(cause.seconds)))
      << '\n';
  row(out, "worker", rank_text(cause));
  row(out, "program", cause.program);
  row(out, "cause", cause.cause);
  row(out, "error", cause.error);
  row(out, "log", cause.log_file);
  if (cause.last_lines.empty()) {
    row(out, "output", "none, neither on stderr nor on stdout");
    return;
  }
  row(out, "output", concat("its last lines of ", cause.last_lines_of, ":"));
  for (const std::string& line : cause.last_lines) out << painter.faint("  | ") << line << '\n';
}

void write_others(std::ostringstream& out, const AttemptOutcome& outcome) {
  for (std::size_t i = 1; i < outcome.failures.size(); ++i) {
    const WorkerOutcome& worker = outcome.failures[i];
    const double later = worker.ended_at - outcome.failures.front().ended_at;
    out << "  also failed: rank " << worker.rank << ' ' << how(worker) << ", "
        << seconds(later < 0 ? -later : later) << (later < 0 ? " before, blaming a peer" : " later")
        << (worker.error.empty() ? "" : ": ") << worker.error << '\n';
  }
  if (!outcome.stopped.empty())
    out << "  stopped by the launcher: " << rank_list(outcome.stopped) << '\n';
}

std::string one_line(const AttemptOutcome& outcome) {
  if (outcome.failures.empty()) return outcome.launcher_error;
  const WorkerOutcome& cause = outcome.failures.front();
  return concat(rank_text(cause), " ", how(cause), " after ", seconds(cause.seconds),
                cause.cause.empty() ? "" : ": ", cause.cause);
}

}  // namespace

std::string failure_report(const std::vector<AttemptOutcome>& attempts, bool colour) {
  const Painter painter(colour);
  const AttemptOutcome& last = attempts.back();
  std::ostringstream out;
  if (!last.failures.empty()) {
    write_cause(out, last.failures.front(), painter);
    write_others(out, last);
  } else if (last.signal != 0) {
    out << painter.strong(concat("lockstep: ended by ", base::signal_name(last.signal))) << '\n';
    if (!last.stopped.empty())
      out << "  stopped by the launcher: " << rank_list(last.stopped) << '\n';
  } else {
    out << painter.strong("lockstep: " + last.launcher_error) << '\n';
  }
  if (attempts.size() > 1) out << "  attempts:\n";
  for (std::size_t i = 0; attempts.size() > 1 && i < attempts.size(); ++i)
    out << "    " << attempts[i].attempt << ": " << one_line(attempts[i]) << '\n';
  if (last.launcher_error.empty()) out << "  exit code " << last.exit_code() << '\n';
  return std::move(out).str();
}

std::string restart_notice(const AttemptOutcome& outcome, int max_restarts) {
  return concat("lockstep: attempt ", outcome.attempt, " failed: ", one_line(outcome),
                "; starting all workers again (restart ", outcome.attempt + 1, " of ", max_restarts,
                ")");
}

}  // namespace lockstep::launch
