#pragma once
#include <cstdint>
#include <optional>

#include "base/private_folder.h"
#include "launch/program.h"
#include "launch/run_options.h"

namespace lockstep::launch {

/// What the agent, which does a node's work, is given by the process the user started.
struct AgentTask {
  const RunOptions& options;
  const Program& program;
  const base::PrivateFolder& folder;        ///< kept and removed by the guardian
  std::optional<std::uint16_t> fixed_port;  ///< that the user chose; held by the guardian
  int guardian;                             ///< pidfd of the guardian: readable when that is dead
};

/// Runs the job's workers on this node, attempt after attempt, and tells how it went on stderr.
/// Returns the exit code. The calling process has one thread and no children.
int run_agent(const AgentTask& task);

}  // namespace lockstep::launch
