#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_options.h"

namespace lockstep::launch {

/// What one job's workers have in common.
struct Job {
  std::string run_id;  ///< TORCHELASTIC_RUN_ID: --rdzv-id, or a random one on a single node
  std::string id;      ///< LOCKSTEP_JOB_ID: differs between any two jobs
  std::string token;   ///< LOCKSTEP_JOB_TOKEN: 128 random bits
};

/// Where the workers of this node stand in one attempt of the job.
struct Placement {
  int attempt = 0;
  int node_rank = 0;
  int nodes = 1;
  int first_rank = 0;  ///< rank of this node's local rank 0
  int local_world_size = 1;
  int world_size = 1;
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::string rendezvous;     ///< LOCKSTEP_RENDEZVOUS; empty when the workers are on several nodes
  std::string inquiry;        ///< LOCKSTEP_INQUIRY
  std::string flight_folder;  ///< LOCKSTEP_FLIGHT_DIR, unless set; empty: the library's own choice

  int rank_of(int local_rank) const { return first_rank + local_rank; }
};

/// The environment of one worker, as NAME=value: `inherited` with the variables of torchrun's and
/// lockstep's contracts set. Values that users set themselves (OMP_NUM_THREADS,
/// TORCH_NCCL_ASYNC_ERROR_HANDLING) stay.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited,
                                            const RunOptions& options, const Job& job,
                                            const Placement& placement, int local_rank,
                                            const std::filesystem::path& error_file,
                                            int usable_cpus);

/// OMP_NUM_THREADS for workers that have none: the processors divided among them, at least 1.
/// Nothing where a program's own choice is as good: one worker with the whole machine (`all_cpus`).
std::optional<int> threads_per_worker(int usable_cpus, int all_cpus, int workers);

}  // namespace lockstep::launch
