#pragma once
#include <string>

namespace lockstep::rendezvous {

/// One process of a job, as it introduces itself to the others.
struct Member {
  std::string job_id;  ///< only processes of one job meet
  std::string token;   ///< secret of the job that admits to its store; the store tells it nobody
  int attempt = 0;     ///< restarts so far: processes of different attempts do not meet
  int rank = -1;
  int world_size = 0;
  std::string host;
  int pid = 0;

  /// "rank 1 (host b, pid 4711)"
  std::string text() const;
};

/// How a member went: with a goodbye, or without one (it ended, was killed, or its host vanished).
enum class Departure { kLeft, kLost };

}  // namespace lockstep::rendezvous
