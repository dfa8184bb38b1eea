#include "launch/worker_environment.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/concat.h"
#include "base/cpu_set.h"
#include "base/env.h"
#include "base/signals.h"

namespace lockstep::launch {
namespace {

using base::concat;
using Variables = std::map<std::string, std::string>;

Variables parsed(const std::vector<std::string>& inherited) {
  Variables variables;
  for (const std::string& entry : inherited) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

// The device that local rank N of the parent's list of devices is; N itself without a list.
std::string device_of(const Variables& variables, int local_rank) {
  const auto list = variables.find("CUDA_VISIBLE_DEVICES");
  if (list == variables.end() || list->second.empty()) return std::to_string(local_rank);
  std::istringstream in(list->second);
  std::string device;
  for (int i = 0; i <= local_rank; ++i)
    if (!std::getline(in, device, ',')) return std::to_string(local_rank);
  return device;
}

std::string names_of(const std::vector<int>& signals) {
  std::string names;
  for (const int signal : signals) names += (names.empty() ? "" : ",") + base::signal_name(signal);
  return names;
}

void set_torchrun_contract(Variables& variables, const RunOptions& options, const Job& job,
                           const Placement& placement, int local_rank,
                           const std::filesystem::path& error_file) {
  const auto set = [&](const char* name, const auto& value) { variables[name] = concat(value); };
  set("RANK", placement.rank_of(local_rank));
  set("LOCAL_RANK", options.virtual_local_rank ? 0 : local_rank);
  set("WORLD_SIZE", placement.world_size);
  set("LOCAL_WORLD_SIZE", placement.local_world_size);
  set("GROUP_RANK", placement.node_rank);
  set("GROUP_WORLD_SIZE", placement.nodes);
  set("ROLE_NAME", options.role);
  set("ROLE_RANK", placement.rank_of(local_rank));
  set("ROLE_WORLD_SIZE", placement.world_size);
  set("MASTER_ADDR", placement.master_address);
  set("MASTER_PORT", placement.master_port);
  set("TORCHELASTIC_RUN_ID", job.run_id);
  set("TORCHELASTIC_RESTART_COUNT", placement.attempt);
  set("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  set("TORCHELASTIC_USE_AGENT_STORE", "False");
  set("TORCHELASTIC_SIGNALS_TO_HANDLE", names_of(options.handled_signals));
  set("TORCHELASTIC_ERROR_FILE", error_file.string());
  variables.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
}

}  // namespace

std::optional<int> threads_per_worker(int usable_cpus, int all_cpus, int workers) {
  if (workers == 1 && usable_cpus >= all_cpus) return std::nullopt;
  return std::max(1, usable_cpus / std::max(1, workers));
}

std::vector<std::string> worker_environment(const std::vector<std::string>& inherited,
                                            const RunOptions& options, const Job& job,
                                            const Placement& placement, int local_rank,
                                            const std::filesystem::path& error_file,
                                            int usable_cpus) {
  Variables variables = parsed(inherited);
  if (options.virtual_local_rank)
    variables["CUDA_VISIBLE_DEVICES"] = device_of(variables, local_rank);
  set_torchrun_contract(variables, options, job, placement, local_rank, error_file);
  variables[base::contract::kJobId] = job.id;
  variables[base::contract::kToken] = job.token;
  variables[base::contract::kAttempt] = std::to_string(placement.attempt);
  // One that an enclosing job left here would lead to that job's workers.
  variables.erase(base::contract::kRendezvous);
  if (!placement.rendezvous.empty()) variables[base::contract::kRendezvous] = placement.rendezvous;
  variables.erase(base::contract::kInquiry);
  if (!placement.inquiry.empty()) variables[base::contract::kInquiry] = placement.inquiry;
  if (!placement.flight_folder.empty())
    variables.emplace(base::contract::kFlightFolder, placement.flight_folder);
  const auto all_cpus = static_cast<int>(base::allowed_cpus().size());
  const auto threads = threads_per_worker(usable_cpus, all_cpus, placement.local_world_size);
  if (threads && variables["OMP_NUM_THREADS"].empty())
    variables["OMP_NUM_THREADS"] = std::to_string(*threads);

  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables) environment.push_back(concat(name, "=", value));
  return environment;
}

}  // namespace lockstep::launch
