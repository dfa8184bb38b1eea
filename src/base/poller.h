#pragma once
#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "base/fd.h"

namespace lockstep::base {

/// Waits for many descriptors in one thread. Events are handled in the order in which they came,
/// so of two processes that ended before a wait, the first to end is told first.
class Poller {
 public:
  /// Gets the EPOLL... events that came.
  using Handler = std::function<void(std::uint32_t events)>;

  Poller();

  /// Calls `handler` in `wait` whenever one of `events` holds, until `forget`. The descriptor must
  /// stay open as long. A file that cannot be watched, such as a regular one, gives false.
  bool watch(int fd, std::uint32_t events, Handler handler);

  /// Safe inside a handler, also for descriptors whose events are yet to be told in this wait.
  void forget(int fd);

  /// Handles what came, waiting for it at most until the deadline (none: as long as it takes).
  void wait(const std::optional<Deadline>& deadline);

 private:
  struct Watch {
    std::uint64_t id;  // tells a descriptor from an earlier one of the same number
    std::shared_ptr<const Handler> handler;
  };
  Fd epoll_;
  std::uint64_t next_id_ = 1;
  std::map<int, Watch> watches_;
  std::map<std::uint64_t, int> fds_;
};

}  // namespace lockstep::base
