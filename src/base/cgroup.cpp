#include "base/cgroup.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "base/cpu_set.h"
#include "base/env.h"

namespace lockstep::base {
namespace fs = std::filesystem;
namespace {

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& parts, const std::string& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// A file of lines such as "oom_kill 3".
std::optional<std::uint64_t> value_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string name;
  std::uint64_t value = 0;
  while (in >> name >> value)
    if (name == key) return value;
  return std::nullopt;
}

// The smallest of what `read` finds in the group and in those around it.
template <class Value>
std::optional<Value> smallest(const fs::path& mount, fs::path group,
                              const std::function<std::optional<Value>(const fs::path&)>& read) {
  std::optional<Value> least;
  if (mount.empty()) return least;
  for (;;) {
    const auto value = read(mount / group);
    if (value && (!least || *value < *least)) least = value;
    if (group.empty()) return least;
    group = group.parent_path();
  }
}

}  // namespace

Cgroup::Cgroup(const fs::path& root) : root_(root), cpu_(find("cpu")), memory_(find("memory")) {}

// /proc/self/cgroup has lines "4:memory:/group" (version 1) and "0::/group" (version 2);
// /proc/self/mountinfo tells where each hierarchy is mounted, and which of its groups is on top
// there.
Cgroup::Controller Cgroup::find(const std::string& name) const {
  std::optional<std::string> own_v1;
  std::string own_v2;
  std::ifstream groups(root_ / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    if (parts[0] == "0") own_v2 = parts[2];
    if (contains(split(parts[1], ','), name)) own_v1 = parts[2];
  }
  Controller found;
  std::ifstream mounts(root_ / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto head = split(line.substr(0, dash), ' ');
    const auto tail = split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    const bool v1 = tail[0] == "cgroup" && contains(split(tail[2], ','), name);
    const bool v2 = tail[0] == "cgroup2" && !own_v1;
    if (!v1 && !v2) continue;
    found.mount = root_ / fs::path(head[4]).relative_path();
    found.unified = v2;
    const fs::path own = v1 ? own_v1.value_or("/") : own_v2;
    const fs::path below = own.lexically_relative(head[3]);
    found.group = below.empty() || *below.begin() == ".." || below == "." ? fs::path() : below;
  }
  return found;
}

std::optional<double> Cgroup::cpu_limit() const {
  const bool unified = cpu_.unified;
  return smallest<double>(cpu_.mount, cpu_.group,
                          [unified](const fs::path& group) -> std::optional<double> {
                            double quota = 0;
                            double period = 0;
                            if (unified) {
                              std::istringstream line(first_line(group / "cpu.max"));
                              if (!(line >> quota >> period))
                                return std::nullopt;  // "max 100000": no limit
                            } else {
                              std::istringstream(first_line(group / "cpu.cfs_quota_us")) >> quota;
                              std::istringstream(first_line(group / "cpu.cfs_period_us")) >> period;
                            }
                            if (quota <= 0 || period <= 0) return std::nullopt;
                            return quota / period;
                          });
}

std::optional<std::uint64_t> Cgroup::memory_limit() const {
  const char* file = memory_.unified ? "memory.max" : "memory.limit_in_bytes";
  return smallest<std::uint64_t>(memory_.mount, memory_.group,
                                 [file](const fs::path& group) -> std::optional<std::uint64_t> {
                                   const auto bytes = parse_number(first_line(group / file));
                                   // Version 1 says "no limit" by a number near the largest there
                                   // is.
                                   if (!bytes || *bytes <= 0 || *bytes > (1L << 60))
                                     return std::nullopt;
                                   return static_cast<std::uint64_t>(*bytes);
                                 });
}

std::optional<std::uint64_t> Cgroup::out_of_memory_kills() const {
  const char* file = memory_.unified ? "memory.events" : "memory.oom_control";
  std::optional<std::uint64_t> kills;
  if (!memory_.mount.empty()) kills = value_of(memory_.mount / memory_.group / file, "oom_kill");
  return kills ? kills : value_of(root_ / "proc/vmstat", "oom_kill");
}

int usable_cpus() {
  int cpus = std::max(1, static_cast<int>(allowed_cpus().size()));
  if (const auto limit = Cgroup().cpu_limit())
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(*limit))));
  return cpus;
}

}  // namespace lockstep::base
