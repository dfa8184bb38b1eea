#include "base/stream_io.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/os_error.h"

namespace lockstep::base {
namespace {

// A pipe or terminal that reports room takes this much without blocking.
constexpr std::size_t kRoom = 4096;

}  // namespace

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw os_error("cannot make a pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) throw os_error("cannot make a pipe non-blocking");
  return pipe;
}

IoResult read_some(int fd, std::span<char> into) {
  ssize_t count = 0;
  while ((count = ::read(fd, into.data(), into.size())) < 0 && errno == EINTR) {
  }
  if (count > 0) return {.count = static_cast<std::size_t>(count)};
  if (count < 0 && errno == EAGAIN) return {.would_block = true};
  return {.ended = true, .error = count < 0 ? errno : 0};
}

IoResult write_without_blocking(int fd, std::string_view text) {
  pollfd room{fd, POLLOUT, 0};
  if (::poll(&room, 1, 0) != 1) return {.would_block = true};
  const auto count = ::write(fd, text.data(), std::min(text.size(), kRoom));
  if (count >= 0) return {.count = static_cast<std::size_t>(count)};
  if (errno == EINTR || errno == EAGAIN) return {.would_block = true};
  return {.ended = true, .error = errno};
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

Fd create_for_appending(const std::filesystem::path& path) {
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
}

bool is_executable(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace lockstep::base
