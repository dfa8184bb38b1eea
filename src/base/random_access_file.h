#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/fd.h"

namespace lockstep::base {

/// A file open for reading at any offset. Throws DataError naming the path. Thread-safe: it has no
/// position.
class RandomAccessFile {
 public:
  explicit RandomAccessFile(std::filesystem::path path);

  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

  /// Fills `into` from `offset` on; an end of file before that is an error.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::filesystem::path path_;
  Fd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep::base
