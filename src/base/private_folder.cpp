#include "base/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/file.h"

namespace lockstep::base {
namespace fs = std::filesystem;
namespace {

// A Unix socket's path has at most 107 bytes; the names below the folder need some of them.
constexpr std::size_t kLongestBase = 60;

Fd open_folder(const fs::path& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_mine(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid();
}

// Another process may have swept the folder between its making and its locking.
bool still_there(const fs::path& path, int fd) {
  struct stat named {};
  struct stat held {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &held) == 0 &&
         named.st_ino == held.st_ino;
}

void sweep(const fs::path& base, const std::string& head) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (!entry.path().filename().string().starts_with(head)) continue;
    const Fd fd = open_folder(entry.path());
    if (!fd || !is_mine(fd.get()) || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& prefix) {
  std::string base = Env::of_process().text("TMPDIR").value_or("/tmp");
  if (base.size() > kLongestBase) base = "/tmp";
  sweep(base, prefix + "-");
  do {
    path_ = make_unique_folder(base, prefix);
    lock_ = open_folder(path_);
  } while (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
           !still_there(path_, lock_.get()));
}

PrivateFolder::~PrivateFolder() { remove(); }

void PrivateFolder::remove() const noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lockstep::base
