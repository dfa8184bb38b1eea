#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/byte_source.h"

namespace lockstep::checkpoint {

/// One record of the container.
struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  ///< of the data, not of its header
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool plain = true;  ///< neither compressed nor encrypted; others are listed but not read
};

/// Reads the zip container of .pth files: records stored uncompressed, zip64 included.
///
/// libtorch's own reader (caffe2 PyTorchStreamReader) does not compare checksums; this one compares
/// the CRC-32 of every record it reads, both copies of every header, and that records lie within
/// the file and apart from each other, so that a flipped bit or a lying size is an error and never
/// costs memory. Throws CheckpointError without the file's name, which its caller adds. Layout:
/// PKWARE APPNOTE 6.3.
class ZipReader {
 public:
  explicit ZipReader(ByteSource source);

  const std::vector<ZipEntry>& entries() const { return entries_; }

  /// Null when there is none of that name.
  const ZipEntry* find(std::string_view name) const;

  /// Fills `into`, of just the entry's size, and compares its checksum.
  void read(const ZipEntry& entry, std::span<std::byte> into) const;

  /// The whole record; more than `limit` bytes are an error.
  std::vector<std::byte> read(const ZipEntry& entry, std::uint64_t limit) const;

 private:
  struct Directory {
    std::uint64_t count = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
  };

  std::vector<std::byte> bytes_at(std::uint64_t offset, std::uint64_t count,
                                  std::string_view what) const;
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  void locate_data(ZipEntry& entry, std::uint64_t header, std::uint16_t flags,
                   std::uint16_t method) const;
  void check_layout(std::uint64_t end) const;

  ByteSource source_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace lockstep::checkpoint
