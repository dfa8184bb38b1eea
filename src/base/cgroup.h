#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::base {

/// What control groups, version 1 or 2, say about this process: the limits a container or a batch
/// system gave it.
class Cgroup {
 public:
  /// Looks up where this process is. `root` stands for "/" in tests.
  explicit Cgroup(const std::filesystem::path& root = "/");

  /// Processors' worth of time it may use, the smallest over all enclosing groups; nothing: no
  /// limit.
  std::optional<double> cpu_limit() const;

  /// Bytes it may use, the smallest over all enclosing groups; nothing: no limit.
  std::optional<std::uint64_t> memory_limit() const;

  /// Processes of this group that the kernel killed for want of memory so far (of the whole machine
  /// where there is no memory group); nothing when the kernel does not tell.
  std::optional<std::uint64_t> out_of_memory_kills() const;

 private:
  struct Controller {
    std::filesystem::path mount;  // empty: absent
    std::filesystem::path group;  // below mount
    bool unified = false;         // version 2
  };
  Controller find(const std::string& name) const;

  std::filesystem::path root_;
  Controller cpu_;
  Controller memory_;
};

/// Processors this process may keep busy: its affinity mask, cut to the control group's limit; at
/// least 1.
int usable_cpus();

}  // namespace lockstep::base
