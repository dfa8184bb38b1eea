#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::base {

/// What a process of this host is doing, as the kernel sees it.
struct ProcessActivity {
  std::string state;       ///< as `process_state` has it
  double cpu_seconds = 0;  ///< used so far, by all its threads
  int threads = 0;
  std::uint64_t resident = 0;  ///< bytes
  std::string system_call;     ///< of its main thread: "futex"; empty: none, or not to be read
  std::string wait_channel;    ///< the kernel's function that it sleeps in; empty likewise
};

/// Nothing when there is no such process.
std::optional<ProcessActivity> process_activity(int pid);

}  // namespace lockstep::base
