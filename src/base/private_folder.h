#pragma once
#include <filesystem>
#include <string>

#include "base/fd.h"

namespace lockstep::base {

/// A folder of mode 0700 for the life of a job: sockets and small files of processes that belong
/// together.
///
/// Its owner holds a lock on it. Folders of the same prefix and user that nobody holds any more
/// (their owners were killed) are removed when the next one is made. Locks, unlike pids, also tell
/// the living from the dead across containers that share the folder.
class PrivateFolder {
 public:
  /// Below $TMPDIR or /tmp; below /tmp also when $TMPDIR is too long for socket paths.
  explicit PrivateFolder(const std::string& prefix);

  /// Removes the folder with all in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  /// Removes it already now; for a child process that outlives the one that made the folder.
  void remove() const noexcept;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Fd lock_;  // a forked child holds the lock too
};

}  // namespace lockstep::base
