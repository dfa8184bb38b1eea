#pragma once
#include <string>
#include <vector>

namespace lockstep::comm {

/// Slurm's notation for tasks on each node, "3,1" or "2(x3),1". Throws UsageError quoting what it
/// cannot read.
std::vector<int> parse_tasks_per_node(const std::string& text);

/// Slurm's notation for host names, "n[1-2],x[007-009,12]"; zero padding is kept.
std::vector<std::string> parse_node_list(const std::string& text);

}  // namespace lockstep::comm
