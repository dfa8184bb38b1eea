#pragma once
#include <cstdint>

#include "base/fd.h"

namespace lockstep::base {

/// This job's word that it will use a TCP port which the user chose, before anything listens there.
///
/// `HeldPort` cannot tell two jobs with one fixed port apart, since neither listens. The claim is
/// an abstract Unix socket named after the port: it lives in the same network namespace as the port
/// and goes with the process.
class PortClaim {
 public:
  /// Throws UsageError naming the process that has claimed the port.
  explicit PortClaim(std::uint16_t port);

 private:
  Fd socket_;
};

}  // namespace lockstep::base
