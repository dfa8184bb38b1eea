#include "checkpoint/byte_source.h"

#include <cstring>
#include <memory>

#include "base/random_access_file.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {

ByteSource file_source(const std::filesystem::path& path) {
  const auto file = std::make_shared<const base::RandomAccessFile>(path);
  return {file->size(),
          [file](std::uint64_t offset, std::span<std::byte> into) { file->read(offset, into); }};
}

ByteSource memory_source(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> into) {
            if (offset > bytes.size() || into.size() > bytes.size() - offset) {
              throw DataError("the bytes end too soon");
            }
            if (!into.empty()) std::memcpy(into.data(), bytes.data() + offset, into.size());
          }};
}

}  // namespace lockstep::checkpoint
