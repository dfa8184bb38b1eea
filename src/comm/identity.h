#pragma once
#include <optional>
#include <string>

#include "base/env.h"
#include "lockstep/comm.h"

namespace lockstep::comm {

/// Who this process is and where it meets the others, read from what launchers leave in the
/// environment.
struct Identity {
  Place place;
  std::string job_id = "default";
  std::string token;
  int attempt = 0;

  /// Where `env://` meets: an init method for `rendezvous::meet`; empty when the environment does
  /// not say.
  std::string meeting;
  /// Where `meeting` needs a folder of this user that nobody has made yet.
  std::string meeting_folder;
  /// host:port of a c10d TCPStore that torchrun's agent already serves; the meeting goes through
  /// it.
  std::string agent_store;

  /// The variables that decided, such as "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2".
  std::string evidence;
  /// Set when the environment looks like a multi-process job in which this process has no part.
  std::string warning;
};

/// The first that applies of: LOCKSTEP_RANK..., RANK + WORLD_SIZE + LOCAL_RANK, OMPI_*, PMI_* with
/// MPI_LOCALRANKID, SLURM_* inside a step, PMI_* alone, RANK + WORLD_SIZE alone, nothing (a world
/// of one). Explicit rank and size, where given, replace what was found. Throws UsageError naming
/// the variables when a set is half there or contradicts itself.
Identity detect(const base::Env& env, std::optional<int> rank = {},
                std::optional<int> world_size = {});

}  // namespace lockstep::comm
