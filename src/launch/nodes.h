#pragma once
#include <memory>
#include <optional>
#include <string>

#include "launch/outcome.h"
#include "launch/run_options.h"
#include "launch/worker_environment.h"

namespace lockstep::launch {

/// What the nodes agreed on for one attempt.
struct Agreement {
  Job job;
  Placement placement;
};

/// This node among the nodes of a job: they meet, agree on ranks and the master's address, and hear
/// of each other's failures. A job has one end, the first that any node tells.
///
/// Nothing here blocks: threads of its own ("ls-nodes") wait for the others, and `event_fd` becomes
/// readable when one of the queries below may answer anew.
class Nodes {
 public:
  explicit Nodes(const RunOptions& options);

  /// Leaves the job. May take as long as the limit of the meeting while that is under way.
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  int event_fd() const;
  void drain();

  /// Begins to agree on an attempt with the other nodes; meets them first, when this is the first
  /// one. No node gets past it before every node's workers of the attempt before are gone.
  void begin(int attempt);

  std::optional<Agreement> agreement() const;
  /// Why there is none and will be none, or why the job cannot go on: a node is missing or was
  /// lost.
  std::string failure() const;
  /// How the attempt ended for the whole job, once that is settled.
  std::optional<AttemptOutcome> end() const;

  /// Tells the others that the attempt failed here. The first word counts; see `end`.
  void tell_failure(const AttemptOutcome& outcome);
  /// Tells the others that all workers of this node succeeded.
  void tell_success(int attempt);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::launch
