#include "base/poller.h"

#include <array>
#include <cerrno>

#include "base/os_error.h"

namespace lockstep::base {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw os_error("cannot make an epoll");
}

bool Poller::watch(int fd, std::uint32_t events, Handler handler) {
  forget(fd);
  epoll_event event{};
  event.events = events;
  event.data.u64 = next_id_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    if (errno == EPERM) return false;
    throw os_error("cannot watch a descriptor");
  }
  watches_.emplace(fd, Watch{next_id_, std::make_shared<const Handler>(std::move(handler))});
  fds_.emplace(next_id_++, fd);
  return true;
}

void Poller::forget(int fd) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  fds_.erase(found->second.id);
  watches_.erase(found);
}

void Poller::wait(const std::optional<Deadline>& deadline) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 deadline ? deadline->poll_timeout() : -1);
  if (count < 0 && errno != EINTR) throw os_error("cannot wait for events");
  for (int i = 0; i < count; ++i) {
    const auto fd = fds_.find(events[static_cast<std::size_t>(i)].data.u64);
    if (fd == fds_.end()) continue;
    const auto handler = watches_.at(fd->second).handler;
    (*handler)(events[static_cast<std::size_t>(i)].events);
  }
}

}  // namespace lockstep::base
