#include "launch/devices.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/cgroup.h"
#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace fs = std::filesystem;
namespace {

using base::concat;

int device_files(const fs::path& root) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && base::parse_number(name.substr(6)).value_or(-1) >= 0) ++count;
  }
  return count;
}

// CUDA takes the list up to the first entry that is no device: "0,-1,1" is one device.
int listed_devices(const std::string& list, int present) {
  std::set<std::string> seen;
  std::istringstream in(list);
  for (std::string entry; std::getline(in, entry, ',');) {
    const auto begin = entry.find_first_not_of(' ');
    entry = begin == std::string::npos
                ? ""
                : entry.substr(begin, entry.find_last_not_of(' ') - begin + 1);
    const auto index = base::parse_number(entry);
    const bool by_name = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!by_name && (!index || *index < 0 || *index >= present)) break;
    seen.insert(entry);
  }
  return static_cast<int>(seen.size());
}

}  // namespace

int visible_gpus(const base::Env& env, const fs::path& root) {
  const int present = device_files(root);
  if (present == 0) return 0;
  // An empty list is not the same as none: it hides every device.
  if (!env.is_set("CUDA_VISIBLE_DEVICES")) return present;
  return listed_devices(env.text("CUDA_VISIBLE_DEVICES").value_or(""), present);
}

int local_world_size(const std::string& workers, const base::Env& env, const fs::path& root) {
  if (const auto number = base::parse_number(workers)) return static_cast<int>(*number);
  const int gpus = workers == "cpu" ? 0 : visible_gpus(env, root);
  if (gpus > 0) return gpus;
  if (workers == "gpu") {
    const auto list = env.text("CUDA_VISIBLE_DEVICES");
    throw UsageError(list ? concat("--nproc-per-node gpu, but CUDA_VISIBLE_DEVICES='", *list,
                                   "' leaves no GPU visible")
                          : std::string("--nproc-per-node gpu, but this machine has no NVIDIA GPU"),
                     "give a number, or auto");
  }
  return base::usable_cpus();
}

}  // namespace lockstep::launch
