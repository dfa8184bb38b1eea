#pragma once
#include <chrono>

namespace lockstep::base {

/// What the kernel knows of this machine's real-time clock.
struct ClockState {
  bool synchronised = false;  ///< a time service (NTP, PTP) keeps it
  std::chrono::microseconds largest_error{0};
};

/// Asks the kernel, not the network. Throws InternalError where that is not allowed.
ClockState clock_state();

}  // namespace lockstep::base
