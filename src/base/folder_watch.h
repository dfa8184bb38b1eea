#pragma once
#include <filesystem>

#include "base/deadline.h"
#include "base/fd.h"

namespace lockstep::base {

/// Wakes a wait when something in a folder appears, is renamed or is removed. What other hosts do
/// in a network file system makes no event, and the system may have no watch left: waits are to be
/// short.
class FolderWatch {
 public:
  explicit FolderWatch(const std::filesystem::path& folder);

  /// Returns at the next event since the last wait, or at the deadline.
  void wait(Deadline deadline);

 private:
  Fd fd_;
};

}  // namespace lockstep::base
