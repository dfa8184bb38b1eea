#include "launch/cpu_binding.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "base/concat.h"
#include "base/cpu_set.h"
#include "base/env.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace fs = std::filesystem;
namespace {

using base::concat;
using Cpus = std::set<int>;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "0-3,8" as the kernel writes lists of processors.
Cpus parse_list(const std::string& list) {
  Cpus cpus;
  std::istringstream in(list);
  for (std::string range; std::getline(in, range, ',');) {
    const auto dash = range.find('-');
    const auto first = base::parse_number(range.substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : base::parse_number(range.substr(dash + 1));
    if (!first || !last) continue;
    for (long cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

Cpus common(const Cpus& left, const Cpus& right) {
  Cpus both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::inserter(both, both.end()));
  return both;
}

// What /sys tells about processors and devices.
class Topology {
 public:
  explicit Topology(const fs::path& root) : root_(root) {
    const std::vector<int> allowed_list = base::allowed_cpus();
    const Cpus allowed(allowed_list.begin(), allowed_list.end());
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(root_ / "sys/devices/system/node", ignored)) {
      const std::string name = entry.path().filename().string();
      const auto number =
          name.starts_with("node") ? base::parse_number(name.substr(4)) : std::nullopt;
      if (!number) continue;
      Cpus cpus = common(parse_list(first_line(entry.path() / "cpulist")), allowed);
      if (!cpus.empty()) nodes_[static_cast<int>(*number)] = std::move(cpus);
    }
    if (nodes_.empty()) nodes_[0] = allowed;
  }

  const std::map<int, Cpus>& nodes() const { return nodes_; }

  int node_of_worker(int local_rank, int local_world_size) const {
    const auto gpu_node = node_of_gpu(local_rank);
    if (gpu_node && nodes_.contains(*gpu_node)) return *gpu_node;
    const auto place = static_cast<std::ptrdiff_t>(local_rank) *
                       static_cast<std::ptrdiff_t>(nodes_.size()) / local_world_size;
    return std::next(nodes_.begin(), place)->first;
  }

  int socket_of(int cpu) const {
    return static_cast<int>(
        base::parse_number(first_line(cpu_folder(cpu) / "topology/physical_package_id"))
            .value_or(0));
  }

  // The processors of the same core, and of the same last-level cache, as lists that name the
  // group.
  std::string core_of(int cpu) const {
    const std::string siblings = first_line(cpu_folder(cpu) / "topology/thread_siblings_list");
    return siblings.empty() ? std::to_string(cpu) : siblings;
  }
  std::string core_complex_of(int cpu) const {
    for (const char* cache : {"cache/index3", "cache/index2"}) {
      std::string shared = first_line(cpu_folder(cpu) / cache / "shared_cpu_list");
      if (!shared.empty()) return shared;
    }
    return core_of(cpu);
  }

 private:
  fs::path cpu_folder(int cpu) const { return root_ / concat("sys/devices/system/cpu/cpu", cpu); }

  std::optional<int> node_of_gpu(int index) const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(root_ / "proc/driver/nvidia/gpus", ignored)) {
      std::ifstream in(entry.path() / "information");
      for (std::string line; std::getline(in, line);) {
        if (!line.starts_with("Device Minor:")) continue;
        const auto at = line.find_last_of(" \t");
        if (base::parse_number(line.substr(at + 1)) != index) continue;
        std::string address = entry.path().filename().string();
        std::transform(address.begin(), address.end(), address.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        const auto node =
            base::parse_number(first_line(root_ / "sys/bus/pci/devices" / address / "numa_node"));
        // -1: the machine has one node only.
        return node ? std::optional(std::max(0, static_cast<int>(*node))) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  fs::path root_;
  std::map<int, Cpus> nodes_;
};

// `cpus` in groups of one name, in the order of their first processor.
template <class Name>
std::vector<Cpus> grouped(const Cpus& cpus, const Name& name) {
  std::vector<Cpus> groups;
  std::map<std::string, std::size_t> places;
  for (const int cpu : cpus) {
    const auto [place, fresh] = places.emplace(name(cpu), groups.size());
    if (fresh) groups.emplace_back();
    groups[place->second].insert(cpu);
  }
  return groups;
}

// An equal share of the node's cores, the first workers getting one of those left over.
Cpus exclusive_share(const std::vector<Cpus>& cores, std::size_t place, std::size_t sharers) {
  if (cores.size() < sharers)
    throw UsageError(concat("--numa-binding exclusive: ", sharers,
                            " workers share a NUMA node with ", cores.size(), " usable cores"),
                     "start fewer workers, or use --numa-binding node");
  const std::size_t each = cores.size() / sharers;
  const std::size_t extra = cores.size() % sharers;
  const std::size_t first = place * each + std::min(place, extra);
  Cpus share;
  for (std::size_t core = first; core < first + each + (place < extra ? 1 : 0); ++core)
    share.insert(cores[core].begin(), cores[core].end());
  return share;
}

Cpus socket_cpus(const Topology& topology, int node) {
  const int socket = topology.socket_of(*topology.nodes().at(node).begin());
  Cpus cpus;
  for (const auto& [number, members] : topology.nodes())
    if (topology.socket_of(*members.begin()) == socket) cpus.insert(members.begin(), members.end());
  return cpus;
}

Cpus chosen(const Topology& topology, CpuBinding binding, int local_rank, int local_world_size) {
  const int node = topology.node_of_worker(local_rank, local_world_size);
  const Cpus& members = topology.nodes().at(node);
  if (binding == CpuBinding::kNode) return members;
  if (binding == CpuBinding::kSocket) return socket_cpus(topology, node);
  std::size_t place = 0;
  std::size_t sharers = 0;
  for (int rank = 0; rank < local_world_size; ++rank) {
    if (topology.node_of_worker(rank, local_world_size) != node) continue;
    if (rank < local_rank) ++place;
    ++sharers;
  }
  if (binding == CpuBinding::kExclusive)
    return exclusive_share(grouped(members, [&](int cpu) { return topology.core_of(cpu); }), place,
                           sharers);
  const auto complexes = grouped(members, [&](int cpu) { return topology.core_complex_of(cpu); });
  return complexes[place % complexes.size()];
}

}  // namespace

std::vector<int> cpus_for_worker(CpuBinding binding, int local_rank, int local_world_size,
                                 const fs::path& root) {
  if (binding == CpuBinding::kNone) return {};
  const Topology topology(root);
  const bool whole_nodes = binding == CpuBinding::kNode || binding == CpuBinding::kSocket;
  if (whole_nodes && topology.nodes().size() == 1) return {};
  const Cpus cpus = chosen(topology, binding, local_rank, local_world_size);
  return {cpus.begin(), cpus.end()};
}

}  // namespace lockstep::launch
