#include "base/rename.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/concat.h"
#include "base/host.h"
#include "base/os_error.h"
#include "base/socket.h"

namespace lockstep::base {
namespace {

bool has_two_names(const std::filesystem::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_nlink == 2;
}

}  // namespace

bool rename_if_absent(const std::filesystem::path& from, const std::filesystem::path& to) {
  // link, not rename: it is the one call that NFS makes atomic and that refuses a name in use. When
  // its answer got lost there, the repeated call fails; the number of names tells that the first
  // had worked.
  if (::link(from.c_str(), to.c_str()) == 0 || has_two_names(from)) {
    ::unlink(from.c_str());
    return true;
  }
  if (errno == EEXIST) return false;
  const int link_error = errno;
  // File systems without hard links.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  throw os_error(concat("cannot create ", to), link_error);
}

bool write_if_absent(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path hidden = hidden_beside(path);
  Fd fd(::open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd) throw os_error(concat("cannot create a file in ", path.parent_path()));
  try {
    while (!content.empty()) {
      const auto count = ::write(fd.get(), content.data(), content.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw os_error(concat("cannot write ", path));
      content.remove_prefix(static_cast<std::size_t>(count));
    }
    // On a network file system the bytes reach the others when they are synced, or with the close.
    if (::fsync(fd.get()) != 0) throw os_error(concat("cannot sync ", path));
    fd.reset();
    if (rename_if_absent(hidden, path)) return true;
  } catch (...) {
    ::unlink(hidden.c_str());
    throw;
  }
  ::unlink(hidden.c_str());
  return false;
}

std::filesystem::path hidden_beside(const std::filesystem::path& path) {
  return path.parent_path() / concat(".", path.filename().string(), ".", random_hex(4));
}

HeldFile::HeldFile(const std::filesystem::path& path)
    : fd_(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {}

bool HeldFile::named_by(const std::filesystem::path& path) const noexcept {
  struct stat mine {};
  struct stat named {};
  return fd_ && ::fstat(fd_.get(), &mine) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

void HeldFile::remove(const std::filesystem::path& path) const noexcept {
  if (named_by(path)) ::unlink(path.c_str());
}

bool HeldFile::remove_exclusively(const std::filesystem::path& path, Deadline deadline) const {
  // The lock goes with its holder, and network file systems pass it on to other hosts.
  const Fd lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock) return !named_by(path);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (deadline.expired()) return false;
    poll_until({}, Deadline::in(std::chrono::milliseconds(1)));
  }
  remove(path);
  return !named_by(path);
}

}  // namespace lockstep::base
