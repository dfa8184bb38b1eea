#pragma once
#include <map>
#include <string>
#include <vector>

namespace lockstep::launch {

/// A worker that has not ended.
struct RunningWorker {
  int rank = 0;
  int pid = 0;
  double seconds = 0;  ///< since its start
};

/// What each worker is doing: its process as the kernel sees it, and its last call as it, or
/// another rank of this node, `told` of it.
std::string activity_text(const std::vector<RunningWorker>& workers,
                          const std::map<int, std::string>& told);

}  // namespace lockstep::launch
