#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace lockstep::checkpoint {

/// Bytes that are read at offsets: a file, or memory. `read` throws where it cannot fill all of
/// `into`.
struct ByteSource {
  std::uint64_t size = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte> into)> read;
};

/// Throws DataError naming the path.
ByteSource file_source(const std::filesystem::path& path);

/// `bytes` must outlive the source.
ByteSource memory_source(std::span<const std::byte> bytes);

}  // namespace lockstep::checkpoint
