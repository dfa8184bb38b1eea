#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace lockstep::base {

/// A file that fails to be written leaves nothing behind; one that succeeds replaces the old whole.
///
/// Bytes go to a temporary file in the same folder, named `.<name>.<pid>.<random>.tmp`; `commit`
/// syncs it, renames it over the target and syncs the folder. Without `commit` the destructor
/// removes it. Temporary files whose process is dead are swept when the next one is opened.
/// `mode` is cut by the umask, as for any new file.
///
/// Throws InternalError (`os_error`), which the room above turns into its own kind.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

  /// The same without waiting for the disk: whole or absent however this process ends, but not
  /// when the machine does.
  void commit_unsynced();

  std::size_t written() const { return written_; }
  const std::filesystem::path& target() const { return target_; }

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Fd fd_;
  std::size_t written_ = 0;
};

/// The whole file. Throws DataError naming the path when it cannot be read or is over `limit`
/// bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit = SIZE_MAX);

/// Makes a folder of mode 0700, `base`/`prefix`-XXXXXX, that nobody else has made.
std::filesystem::path make_unique_folder(const std::string& base, const std::string& prefix);

/// A unique folder under $TMPDIR or /tmp, removed with all in it by the destructor.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix = "lockstep");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Leaves the folder in place.
  void keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  bool keep_ = false;
};

}  // namespace lockstep::base
