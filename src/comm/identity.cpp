#include "comm/identity.h"

#include <unistd.h>

#include <array>
#include <functional>

#include "base/concat.h"
#include "comm/slurm_lists.h"

namespace lockstep::comm {
namespace {

using base::concat;
using base::Env;

/// The names under which one family of launchers gives the numbers.
struct Variables {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

int at_least(const Env& env, const char* name, long lowest) {
  const long value = *env.number(name);
  if (value < lowest || value > 1'000'000)
    throw UsageError(concat(name, "=", value, " in the environment is out of range"),
                     concat("set ", name, " to a number from ", lowest, ", or unset it"));
  return static_cast<int>(value);
}

/// Reads rank and size; nothing when neither is set; throws when one alone is.
std::optional<Identity> read(const Env& env, const Variables& names, const char* launcher) {
  const bool has_rank = env.has(names.rank), has_size = env.has(names.world_size);
  if (!has_rank && !has_size) return std::nullopt;
  if (!has_rank || !has_size) {
    const char* there = has_rank ? names.rank : names.world_size;
    const char* missing = has_rank ? names.world_size : names.rank;
    throw UsageError(
        concat(there, "=", *env.text(there), " is set in the environment but ", missing, " is not"),
        concat("set both, or unset ", there, "; lockstep run sets all that a worker needs"));
  }
  Identity found;
  Place& place = found.place;
  place.launcher = launcher;
  place.rank = at_least(env, names.rank, 0);
  place.world_size = at_least(env, names.world_size, 1);
  if (place.rank >= place.world_size)
    throw UsageError(concat(names.rank, "=", place.rank, " is outside the world of ",
                            names.world_size, "=", place.world_size),
                     concat("ranks run from 0 to ", place.world_size - 1));
  found.evidence =
      concat(names.rank, "=", place.rank, " ", names.world_size, "=", place.world_size);
  if (names.local_rank != nullptr && env.has(names.local_rank)) {
    place.local_rank = at_least(env, names.local_rank, 0);
    found.evidence += concat(" ", names.local_rank, "=", place.local_rank);
  }
  if (names.local_world_size != nullptr && env.has(names.local_world_size)) {
    place.local_world_size = at_least(env, names.local_world_size, 1);
    if (place.local_rank >= place.local_world_size)
      throw UsageError(concat(names.local_rank, "=", place.local_rank, " is outside ",
                              names.local_world_size, "=", place.local_world_size),
                       concat("local ranks run from 0 to ", place.local_world_size - 1));
  }
  return found;
}

std::optional<Identity> from_lockstep(const Env& env) {
  return read(
      env,
      {"LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_LOCAL_RANK", "LOCKSTEP_LOCAL_WORLD_SIZE"},
      "LOCKSTEP_*");
}

std::optional<Identity> from_launch_variables(const Env& env) {
  if (!env.has("RANK") && !env.has("WORLD_SIZE")) return std::nullopt;
  const bool torchrun = env.has("TORCHELASTIC_RUN_ID");
  const bool ours = env.has(base::contract::kJobId);
  auto found = read(env, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                    ours       ? "lockstep run"
                    : torchrun ? "torchrun"
                               : "RANK");
  if (env.has("GROUP_RANK")) found->place.node_rank = at_least(env, "GROUP_RANK", 0);
  if (env.has("GROUP_WORLD_SIZE")) found->place.nodes = at_least(env, "GROUP_WORLD_SIZE", 1);
  if (torchrun) {
    found->job_id = *env.text("TORCHELASTIC_RUN_ID");
    if (env.has("TORCHELASTIC_RESTART_COUNT"))
      found->attempt = at_least(env, "TORCHELASTIC_RESTART_COUNT", 0);
    if (!ours && env.flag("TORCHELASTIC_USE_AGENT_STORE", false) && env.has("MASTER_ADDR") &&
        env.has("MASTER_PORT"))
      found->agent_store = concat(*env.text("MASTER_ADDR"), ":", *env.text("MASTER_PORT"));
  }
  return found;
}

std::optional<Identity> from_launcher_with_local_rank(const Env& env) {
  return env.has("LOCAL_RANK") ? from_launch_variables(env) : std::nullopt;
}

std::optional<Identity> from_open_mpi(const Env& env) {
  auto found = read(env,
                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                     "OMPI_COMM_WORLD_LOCAL_SIZE"},
                    "Open MPI");
  // OMPI_COMM_WORLD_NODE_RANK is a rank within the node, whatever its name says: never the node's
  // index.
  for (const char* job : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"})
    if (found && env.has(job)) found->job_id = *env.text(job);
  return found;
}

std::optional<Identity> from_mpich(const Env& env) {
  auto found = read(env, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, "MPICH");
  // Hydra gives no job id, but all its local ranks are children of one proxy.
  if (found) found->job_id = concat("hydra-", ::getppid());
  return found;
}

std::optional<Identity> from_mpich_with_local_rank(const Env& env) {
  return env.has("MPI_LOCALRANKID") ? from_mpich(env) : std::nullopt;
}

std::optional<Identity> from_slurm_step(const Env& env) {
  if (!env.has("SLURM_STEP_ID")) return std::nullopt;
  auto found =
      read(env, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr}, "srun");
  if (!found) return std::nullopt;
  Place& place = found->place;
  if (env.has("SLURM_NODEID")) place.node_rank = at_least(env, "SLURM_NODEID", 0);
  if (env.has("SLURM_STEP_NUM_NODES")) place.nodes = at_least(env, "SLURM_STEP_NUM_NODES", 1);
  if (const auto text = env.text("SLURM_STEP_TASKS_PER_NODE")) {
    const auto tasks = parse_tasks_per_node(*text);
    if (place.node_rank >= static_cast<int>(tasks.size()))
      throw UsageError(concat("SLURM_NODEID=", place.node_rank,
                              " is outside SLURM_STEP_TASKS_PER_NODE=", *text));
    place.local_world_size = tasks[static_cast<std::size_t>(place.node_rank)];
  }
  found->job_id =
      concat("slurm-", env.text("SLURM_JOB_ID").value_or("0"), ".", *env.text("SLURM_STEP_ID"));
  if (env.has("SLURM_RESTART_COUNT")) found->attempt = at_least(env, "SLURM_RESTART_COUNT", 0);
  if (const auto nodes = env.text("SLURM_STEP_NODELIST")) {
    const long job = env.number("SLURM_JOB_ID").value_or(0);
    const long port = env.number("MASTER_PORT").value_or(20000 + job % 10000);
    found->meeting = concat("tcp://", parse_node_list(*nodes).front(), ":", port);
  }
  return found;
}

std::optional<Identity> from_pod_variables(const Env& env) {
  auto found = from_launch_variables(env);
  const auto per_node = env.text("PET_NPROC_PER_NODE");
  if (found && per_node && *per_node != "1")
    throw UsageError(
        concat("RANK=", found->place.rank,
               " is the pod's, since LOCAL_RANK is not set and PET_NPROC_PER_NODE=", *per_node),
        "start the program through lockstep run, which gives each worker its own rank");
  return found;
}

Identity alone(const Env& env) {
  Identity found;
  found.job_id = concat("alone-", ::getpid());
  if (env.number("PET_NNODES").value_or(1) > 1)
    throw UsageError(concat("PET_NNODES=", *env.text("PET_NNODES"),
                            " asks for several nodes, but no launcher gave this process a rank"),
                     "start the program through lockstep run, which reads the PET_ variables");
  if (const auto tasks = env.text("SLURM_NTASKS"); tasks && *tasks != "1")
    found.warning = concat("SLURM_NTASKS=", *tasks,
                           " but this process is not inside a job step, so it runs alone; start it "
                           "by srun to run on all tasks");
  return found;
}

/// One meeting point for all ranks of one host whose launcher gave a job id but no address.
void meet_on_this_host(Identity& identity) {
  identity.meeting_folder = concat("/tmp/lockstep-", ::geteuid());
  identity.meeting =
      concat("unix:", identity.meeting_folder, "/", identity.job_id, ".", identity.attempt);
}

void choose_meeting(const Env& env, Identity& identity) {
  const Place& place = identity.place;
  if (!identity.agent_store.empty() || place.world_size == 1) return;
  if (const auto local = env.text(base::contract::kRendezvous)) {
    identity.meeting = *local;
    return;
  }
  const auto address = env.text("MASTER_ADDR");
  const auto port = env.text("MASTER_PORT");
  if (address && port) {
    const bool literal6 = address->find(':') != std::string::npos && !address->starts_with('[');
    identity.meeting =
        concat("tcp://", literal6 ? "[" : "", *address, literal6 ? "]" : "", ":", *port);
  } else if (identity.meeting.empty()) {
    if (place.local_world_size == place.world_size) {
      meet_on_this_host(identity);
    } else if (address || port) {
      throw UsageError(
          concat(address ? "MASTER_ADDR" : "MASTER_PORT", " is set in the environment but ",
                 address ? "MASTER_PORT" : "MASTER_ADDR", " is not"),
          "set both: the host of rank 0 and a free port on it");
    }
  }
}

}  // namespace

Identity detect(const Env& env, std::optional<int> rank, std::optional<int> world_size) {
  using Reader = std::optional<Identity> (*)(const Env&);
  constexpr std::array<Reader, 7> kReaders = {from_lockstep,     from_launcher_with_local_rank,
                                              from_open_mpi,     from_mpich_with_local_rank,
                                              from_slurm_step,   from_mpich,
                                              from_pod_variables};
  std::optional<Identity> found;
  if (!(rank && world_size))
    for (const Reader reader : kReaders)
      if (!found) found = reader(env);
  if (rank && world_size) {
    found = Identity();
    found->place.launcher = "explicit";
    found->evidence = concat("rank=", *rank, " world_size=", *world_size);
  }
  Identity identity = found ? *found : alone(env);
  Place& place = identity.place;
  if (rank) place.rank = *rank;
  if (world_size) place.world_size = *world_size;
  if (place.world_size < 1)
    throw UsageError(concat("world_size is ", place.world_size),
                     "give the number of processes, at least 1");
  if (place.rank < 0 || place.rank >= place.world_size)
    throw UsageError(
        concat("rank ", place.rank, " is outside the world of ", place.world_size, " ranks"),
        concat("ranks run from 0 to ", place.world_size - 1));
  if (rank.has_value() != world_size.has_value() && place.launcher == "alone")
    throw UsageError(
        concat(rank ? "rank" : "world_size", " was given without ", rank ? "world_size" : "rank"),
        "give both, or start the program through a launcher");
  if (const auto job = env.text(base::contract::kJobId)) identity.job_id = *job;
  if (env.has(base::contract::kAttempt))
    identity.attempt = at_least(env, base::contract::kAttempt, 0);
  identity.token = env.text(base::contract::kToken).value_or("");
  choose_meeting(env, identity);
  return identity;
}

}  // namespace lockstep::comm
