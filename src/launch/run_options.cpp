#include "launch/run_options.h"

namespace lockstep::launch {

bool StreamChoice::includes(int local_rank, Streams stream) const {
  Streams chosen = all;
  if (!by_local_rank.empty()) {
    const auto found = by_local_rank.find(local_rank);
    chosen = found == by_local_rank.end() ? Streams::kNone : found->second;
  }
  return (static_cast<int>(chosen) & static_cast<int>(stream)) != 0;
}

}  // namespace lockstep::launch
