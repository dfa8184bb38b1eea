#pragma once
#include <filesystem>
#include <vector>

#include "launch/run_options.h"

namespace lockstep::launch {

/// The processors a worker is bound to by --numa-binding; empty: as the launcher.
///
/// Workers go to the NUMA node of the GPU whose number is their local rank; without GPUs, or where
/// the system does not tell, they are dealt out over the nodes in blocks. Only processors that the
/// launcher may use itself are given. On a machine with one node, `node` and `socket` change
/// nothing. `root` stands for "/" in tests. Throws UsageError when there are too few cores to
/// divide.
std::vector<int> cpus_for_worker(CpuBinding binding, int local_rank, int local_world_size,
                                 const std::filesystem::path& root = "/");

}  // namespace lockstep::launch
