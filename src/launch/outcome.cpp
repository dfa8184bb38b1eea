#include "launch/outcome.h"

#include <algorithm>
#include <csignal>

#include "base/concat.h"

namespace lockstep::launch {
namespace {

using base::concat;

// How programs say that the other end of a connection went away: lockstep's own PeerLost, Gloo,
// NCCL, MPI.
constexpr const char* kPeerPhrases[] = {"PeerLost",
                                        "): exited",
                                        ") is gone",
                                        ") exited with",
                                        "Connection closed by peer",
                                        "Connection reset by peer",
                                        "remote process exited",
                                        "Socket closed by peer",
                                        "peer rank"};

bool speaks_of_a_peer(const std::string& text) {
  return std::any_of(std::begin(kPeerPhrases), std::end(kPeerPhrases),
                     [&](const char* phrase) { return text.find(phrase) != std::string::npos; });
}

}  // namespace

bool WorkerOutcome::failed() const {
  if (status.success()) return false;
  if (!told_to_stop) return true;
  // Asked to stop, a worker ends by the signal or with the code that stands for it. One that wrote
  // down an error had failed before the signal came.
  const bool as_asked = status.signal() == SIGTERM || status.signal() == SIGKILL ||
                        status.signal() == SIGINT || status.signal() == SIGHUP ||
                        status.signal() == SIGQUIT || status.code() > 128;
  return !as_asked || !error.empty();
}

bool WorkerOutcome::blames_a_peer() const {
  if (!error.empty()) return speaks_of_a_peer(error);
  return status.signal() != SIGKILL &&
         std::any_of(last_lines.begin(), last_lines.end(), speaks_of_a_peer);
}

int AttemptOutcome::exit_code() const {
  if (!failures.empty()) return failures.front().status.shell_code();
  if (signal != 0) return 128 + signal;
  return launcher_code;
}

AttemptOutcome judge(int attempt, const std::vector<WorkerOutcome>& ended, int signal) {
  AttemptOutcome outcome;
  outcome.attempt = attempt;
  outcome.signal = signal;
  for (const WorkerOutcome& worker : ended) {
    // What workers do once the launcher was told to end is no failure of theirs.
    if (worker.failed() && !(signal != 0 && worker.told_to_stop)) {
      outcome.failures.push_back(worker);
    } else if (worker.told_to_stop) {
      outcome.stopped.push_back(worker.rank);
    }
  }
  // First to end is the cause, unless it says itself that it was a consequence.
  std::stable_partition(outcome.failures.begin(), outcome.failures.end(),
                        [](const WorkerOutcome& worker) { return !worker.blames_a_peer(); });
  std::sort(outcome.stopped.begin(), outcome.stopped.end());
  return outcome;
}

std::string rank_list(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string list;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    // Two in a row read better apart.
    if (last < i + 2) last = i;
    list += concat(list.empty() ? "" : ", ", ranks[i]);
    if (last > i) list += concat("-", ranks[last]);
    i = last + 1;
  }
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list);
}

}  // namespace lockstep::launch
