#pragma once
#include <cstdint>

#include "base/fd.h"

namespace lockstep::base {

/// A TCP port of this host kept for another process.
///
/// The socket is bound with SO_REUSEADDR and does not listen. Linux lets a second socket with the
/// same option bind and listen on that port, but gives the port to nobody who asks for a free one:
/// so there is no moment between choosing the port and its use in which a stranger can take it.
class HeldPort {
 public:
  /// 0: any free port. Throws UsageError when somebody listens on the port.
  explicit HeldPort(std::uint16_t port = 0);

  std::uint16_t number() const { return number_; }

 private:
  Fd socket_;
  std::uint16_t number_ = 0;
};

}  // namespace lockstep::base
