#include "launch/activity.h"

#include <iomanip>
#include <sstream>

#include "base/process_activity.h"

namespace lockstep::launch {

std::string activity_text(const std::vector<RunningWorker>& workers,
                          const std::map<int, std::string>& told) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::ostringstream text;
  text << std::fixed;
  if (workers.empty()) text << "lockstep: no worker runs at the moment\n";
  for (const RunningWorker& worker : workers) {
    text << "lockstep: rank " << worker.rank << " (pid " << worker.pid << "): ";
    const auto activity = base::process_activity(worker.pid);
    if (!activity) {
      text << "has just ended\n";
      continue;
    }
    text << activity->state;
    if (!activity->system_call.empty()) text << " in " << activity->system_call;
    if (!activity->wait_channel.empty()) text << " (" << activity->wait_channel << ")";
    text << "; " << std::setprecision(1) << worker.seconds << " s since its start, "
         << std::setprecision(2) << activity->cpu_seconds << " s of processor time, "
         << activity->threads << (activity->threads == 1 ? " thread, " : " threads, ")
         << std::setprecision(0) << static_cast<double>(activity->resident) / kMiB << " MiB\n";
    const auto call = told.find(worker.rank);
    text << "    "
         << (call != told.end() ? call->second
                                : "nothing is told of its calls: it has joined no group")
         << '\n';
  }
  return std::move(text).str();
}

}  // namespace lockstep::launch
