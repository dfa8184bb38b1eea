#pragma once
#include <sys/types.h>

#include <vector>

namespace lockstep::base {

/// A row of the process table.
struct ProcessEntry {
  pid_t pid;
  pid_t parent;
  pid_t group;
  char state;  ///< as in /proc: R, S, D, T (stopped), Z (ended, not reaped), ...
};

/// All living descendants of `root` (itself not among them), parents before their children.
/// One pass over /proc: what is forked meanwhile may be missed, so kill in rounds until none is
/// left.
std::vector<ProcessEntry> descendants(pid_t root);

/// SIGKILLs every descendant of this process, round after round, and reaps them, until none is left
/// or `limit_seconds` have passed. Returns those that would not die (stuck in the kernel).
std::vector<ProcessEntry> kill_descendants(double limit_seconds);

}  // namespace lockstep::base
