#include "checkpoint/zip_bytes.h"

#include <zlib.h>

namespace lockstep::test {
namespace {

void put(std::string& bytes, std::uint64_t value, int width) {
  for (int index = 0; index < width; ++index)
    bytes.push_back(static_cast<char>(value >> (8 * index)));
}

std::uint32_t crc(const std::string& content) {
  return static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                            static_cast<uInt>(content.size())));
}

// What local header and directory entry have in common.
void put_shared(std::string& bytes, const ZipRecord& record) {
  put(bytes, 20, 2);
  put(bytes, 0, 2);
  put(bytes, record.method, 2);
  put(bytes, 0, 4);
  put(bytes, crc(record.content), 4);
  put(bytes, record.size.value_or(record.content.size()), 4);
  put(bytes, record.size.value_or(record.content.size()), 4);
  put(bytes, record.name.size(), 2);
  put(bytes, 0, 2);
}

}  // namespace

std::string zip_bytes(const std::vector<ZipRecord>& records, std::optional<std::uint16_t> count) {
  std::string bytes;
  std::string directory;
  for (const ZipRecord& record : records) {
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    put_shared(directory, record);
    put(directory, 0, 2);
    put(directory, 0, 4);
    put(directory, 0, 4);
    put(directory, record.offset.value_or(bytes.size()), 4);
    directory += record.name;

    put(bytes, 0x04034b50, 4);
    put_shared(bytes, record);
    bytes += record.name + record.content;
  }
  const std::size_t offset = bytes.size();
  bytes += directory;
  put(bytes, 0x06054b50, 4);
  put(bytes, 0, 4);
  put(bytes, count.value_or(records.size()), 2);
  put(bytes, count.value_or(records.size()), 2);
  put(bytes, directory.size(), 4);
  put(bytes, offset, 4);
  put(bytes, 0, 2);
  return bytes;
}

}  // namespace lockstep::test
