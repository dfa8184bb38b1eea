#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/fd.h"

namespace lockstep::base {

/// Gives the file `from` the name `to` unless that is taken (then false, and `from` stays). Atomic
/// among all who try, on network file systems too. Throws InternalError (`os_error`) for anything
/// else.
bool rename_if_absent(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes the file `path`, mode 0600, with all of `content` at once, unless that name is taken (then
/// false). Throws InternalError (`os_error`).
bool write_if_absent(const std::filesystem::path& path, std::string_view content);

/// A name nobody uses in `path`'s folder, hidden, that tells whose it is.
std::filesystem::path hidden_beside(const std::filesystem::path& path);

/// Tells one file from all that had or will have its name: while it is held, its inode goes to no
/// other.
class HeldFile {
 public:
  HeldFile() = default;
  /// What `path` names now; nothing when there is nothing.
  explicit HeldFile(const std::filesystem::path& path);

  bool named_by(const std::filesystem::path& path) const noexcept;

  /// Removes `path` if it still names this file.
  void remove(const std::filesystem::path& path) const noexcept;

  /// The same for regular files, safe among all who do it at once: none removes what another has put
  /// there since. False when the file is still there.
  bool remove_exclusively(const std::filesystem::path& path, Deadline deadline) const;

 private:
  Fd fd_;
};

}  // namespace lockstep::base
