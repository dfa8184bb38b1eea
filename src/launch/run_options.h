#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep::launch {

/// Which of a worker's two output streams are meant; values as in -r and -t.
enum class Streams { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };

/// A choice for all local ranks, or one for each of some.
struct StreamChoice {
  Streams all = Streams::kNone;
  std::map<int, Streams> by_local_rank;  ///< when not empty, the others have kNone

  bool includes(int local_rank, Streams stream) const;
  bool any() const { return all != Streams::kNone || !by_local_rank.empty(); }
};

enum class CpuBinding { kNone, kNode, kSocket, kExclusive, kCoreComplex };

/// What the command line of `lockstep run` and the PET_ variables say, each value checked by
/// itself. docs/launch.md explains every one.
struct RunOptions {
  int nodes = 1;
  std::string workers = "1";  ///< of this node, as given: a number, auto, cpu or gpu
  int local_world_size = 1;   ///< the same as a number, once the machine was asked
  int node_rank = 0;

  std::string rendezvous_backend = "static";
  std::string rendezvous_endpoint;
  std::string rendezvous_id = "none";
  std::map<std::string, std::string> rendezvous_settings;
  bool standalone = false;
  std::string master_address = "127.0.0.1";
  std::optional<std::uint16_t> master_port;
  std::string local_address;

  int max_restarts = 0;
  std::string role = "default";
  std::vector<int> handled_signals;         ///< end the job, passed on to the workers
  std::chrono::duration<double> grace{30};  ///< from the signal to SIGKILL

  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool use_env = false;
  bool virtual_local_rank = false;
  CpuBinding cpu_binding = CpuBinding::kNone;

  std::string log_folder;
  StreamChoice redirects;
  StreamChoice tee;
  std::string prefix_template;      ///< empty: the default one, on tee'd streams only
  std::set<int> shown_local_ranks;  ///< empty: all
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;

  std::string completion_shell;  ///< print a completion script, start nothing
  bool help = false;

  std::string program;
  std::vector<std::string> arguments;  ///< passed on exactly
  bool legacy_local_rank = false;      ///< `lockstep launch`: add --local-rank=N
};

}  // namespace lockstep::launch
