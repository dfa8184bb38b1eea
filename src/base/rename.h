#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

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

/// Tells a file from others that had or will have its name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// Of what `path` names now; zeros when nothing.
FileId file_id(const std::filesystem::path& path) noexcept;

/// Removes `path` if it still names that file.
void remove_if_same(const std::filesystem::path& path, const FileId& id) noexcept;

}  // namespace lockstep::base
