#include "base/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include "base/socket.h"

namespace lockstep::base {

FolderWatch::FolderWatch(const std::filesystem::path& folder)
    : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (fd_ && ::inotify_add_watch(fd_.get(), folder.c_str(),
                                 IN_CREATE | IN_MOVE | IN_DELETE | IN_ONLYDIR) < 0)
    fd_.reset();
}

void FolderWatch::wait(Deadline deadline) {
  // Without a watch the descriptor is -1, which poll ignores: only the deadline ends the wait.
  pollfd event{fd_.get(), POLLIN, 0};
  if (!poll_until({&event, 1}, deadline)) return;
  char events[4096];
  while (::read(fd_.get(), events, sizeof events) > 0) {
  }
}

}  // namespace lockstep::base
