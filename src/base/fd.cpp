#include "base/fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/os_error.h"

namespace lockstep::base {

void Fd::reset() {
  // On Linux the descriptor is gone even when close is interrupted: never call it twice.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

EventFd::EventFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) throw os_error("cannot make an eventfd");
}

void EventFd::raise() const noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the event is raised already.
  [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
}

void EventFd::drain() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace lockstep::base
