#include "checkpoint/zip_reader.h"

#include <zlib.h>

#include <algorithm>

#include "base/concat.h"
#include "checkpoint/byte_cursor.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDirectorySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint64_t kLocalSize = 30;
constexpr std::uint64_t kDirectoryEntrySize = 46;
constexpr std::uint64_t kEndSize = 22;
constexpr std::uint64_t kEnd64Size = 56;
constexpr std::uint64_t kLocator64Size = 20;
constexpr std::uint64_t kLongestComment = 0xffff;
constexpr std::uint32_t kIn64 = 0xffffffff;  // "the value is in the zip64 field"
constexpr std::uint16_t kZip64Field = 0x0001;
constexpr std::uint16_t kSizesFollowData =
    1 << 3;  // a flag: the local header has zeros instead of sizes
constexpr std::uint16_t kEncrypted = 1 << 0;

// Small enough to stay in the cache between the read and the checksum.
constexpr std::size_t kChunk = std::size_t{256} << 10;

[[noreturn]] void damaged(const std::string& what) {
  throw CheckpointError(concat("the zip container is damaged: ", what),
                        "use a copy of the file, or an earlier one");
}

// The fields of a directory entry that are 32 bits wide where they fit.
struct Sizes {
  std::uint64_t size = 0;
  std::uint64_t compressed = 0;
  std::uint64_t header = 0;
};

// Zip64 keeps those that do not fit in an extra field, in this order.
void widen(Sizes& sizes, std::span<const std::byte> extra) {
  if (sizes.size != kIn64 && sizes.compressed != kIn64 && sizes.header != kIn64) return;
  ByteCursor fields(extra, "an extra field");
  while (fields.remaining() >= 4) {
    const auto id = fields.little_endian<std::uint16_t>();
    const auto length = fields.little_endian<std::uint16_t>();
    ByteCursor field(fields.take(length), "a zip64 field");
    if (id != kZip64Field) continue;
    for (std::uint64_t* value : {&sizes.size, &sizes.compressed, &sizes.header}) {
      if (*value == kIn64) *value = field.little_endian<std::uint64_t>();
    }
    return;
  }
}

}  // namespace

ZipReader::ZipReader(ByteSource source) : source_(std::move(source)) {
  const Directory directory = find_directory();
  read_directory(directory);
  check_layout(directory.offset);
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipReader::read(const ZipEntry& entry, std::span<std::byte> into) const {
  if (into.size() != entry.size)
    throw InternalError("a zip record is read into a buffer of another size");
  if (!entry.plain) {
    throw CheckpointError(
        concat("record '", entry.name, "' is compressed or encrypted, which torch.save never does"),
        "unpack the zip and pack it again without compression (zip -0)");
  }
  auto crc = ::crc32(0, nullptr, 0);
  for (std::size_t done = 0; done < into.size();) {
    const auto part = into.subspan(done, std::min(kChunk, into.size() - done));
    source_.read(entry.offset + done, part);
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    done += part.size();
  }
  if (crc != entry.crc) damaged(concat("record '", entry.name, "' does not have its checksum"));
}

std::vector<std::byte> ZipReader::read(const ZipEntry& entry, std::uint64_t limit) const {
  if (entry.size > limit) {
    throw CheckpointError(concat("record '", entry.name, "' has ", entry.size,
                                 " bytes, more than the ", limit, " allowed there"));
  }
  std::vector<std::byte> bytes(entry.size);
  read(entry, bytes);
  return bytes;
}

std::vector<std::byte> ZipReader::bytes_at(std::uint64_t offset, std::uint64_t count,
                                           std::string_view what) const {
  if (offset > source_.size || count > source_.size - offset) {
    damaged(
        concat(what, " would lie at bytes ", offset, " to ", offset + count, " of ", source_.size));
  }
  std::vector<std::byte> bytes(count);
  source_.read(offset, bytes);
  return bytes;
}

ZipReader::Directory ZipReader::find_directory() const {
  const std::uint64_t tail_size = std::min(source_.size, kEndSize + kLongestComment);
  const std::uint64_t tail_offset = source_.size - tail_size;
  const auto tail = bytes_at(tail_offset, tail_size, "the end record");
  for (std::uint64_t at = tail_size < kEndSize ? 0 : tail_size - kEndSize + 1; at-- > 0;) {
    ByteCursor end(std::span<const std::byte>(tail).subspan(at), "the end record");
    if (end.little_endian<std::uint32_t>() != kEndSignature) continue;
    const auto disks = end.little_endian<std::uint32_t>();
    Directory directory;
    const auto here = end.little_endian<std::uint16_t>();
    directory.count = end.little_endian<std::uint16_t>();
    directory.size = end.little_endian<std::uint32_t>();
    directory.offset = end.little_endian<std::uint32_t>();
    if (end.little_endian<std::uint16_t>() != end.remaining()) continue;
    if (disks != 0 || here != directory.count) damaged("its end record speaks of several disks");

    const std::uint64_t end_offset = tail_offset + at;
    if (end_offset < kLocator64Size) return directory;
    const auto locator_bytes =
        bytes_at(end_offset - kLocator64Size, kLocator64Size, "the zip64 locator");
    ByteCursor locator(locator_bytes, "the zip64 locator");
    if (locator.little_endian<std::uint32_t>() != kLocator64Signature) return directory;
    locator.take(4);
    const auto end64_bytes =
        bytes_at(locator.little_endian<std::uint64_t>(), kEnd64Size, "the zip64 end record");
    ByteCursor end64(end64_bytes, "the zip64 end record");
    if (end64.little_endian<std::uint32_t>() != kEnd64Signature)
      damaged("its zip64 end record is not where it is said to be");
    end64.take(28);
    const Directory wide{.count = end64.little_endian<std::uint64_t>(),
                         .size = end64.little_endian<std::uint64_t>(),
                         .offset = end64.little_endian<std::uint64_t>()};
    return wide;
  }
  throw CheckpointError(
      "not a complete zip container: its directory, which ends the file, is missing",
      "the file was cut short or is of another kind: use a copy, or an earlier checkpoint");
}

void ZipReader::read_directory(const Directory& directory) {
  // Bounds the allocation below by bytes that are really there.
  if (directory.count > directory.size / kDirectoryEntrySize)
    damaged("its directory is too short for its entries");
  const auto bytes = bytes_at(directory.offset, directory.size, "the directory");
  ByteCursor cursor(bytes, "the zip directory");
  entries_.reserve(directory.count);
  for (std::uint64_t index = 0; index < directory.count; ++index) {
    if (cursor.little_endian<std::uint32_t>() != kDirectorySignature)
      damaged(concat("entry ", index, " of its directory is none"));
    cursor.take(4);
    const auto flags = cursor.little_endian<std::uint16_t>();
    const auto method = cursor.little_endian<std::uint16_t>();
    cursor.take(4);
    ZipEntry entry;
    entry.crc = cursor.little_endian<std::uint32_t>();
    Sizes sizes;
    sizes.compressed = cursor.little_endian<std::uint32_t>();
    sizes.size = cursor.little_endian<std::uint32_t>();
    const auto name_length = cursor.little_endian<std::uint16_t>();
    const auto extra_length = cursor.little_endian<std::uint16_t>();
    const auto comment_length = cursor.little_endian<std::uint16_t>();
    cursor.take(8);
    sizes.header = cursor.little_endian<std::uint32_t>();
    entry.name = cursor.text(name_length);
    widen(sizes, cursor.take(extra_length));
    cursor.take(comment_length);
    entry.plain = method == 0 && (flags & kEncrypted) == 0;
    if (entry.plain && sizes.size != sizes.compressed)
      damaged(concat("record '", entry.name, "' has two sizes"));
    entry.size = sizes.compressed;
    locate_data(entry, sizes.header, flags, method);
    if (!by_name_.emplace(entry.name, entries_.size()).second)
      damaged(concat("two records are named '", entry.name, "'"));
    entries_.push_back(std::move(entry));
  }
}

void ZipReader::locate_data(ZipEntry& entry, std::uint64_t header, std::uint16_t flags,
                            std::uint16_t method) const {
  const auto bytes = bytes_at(header, kLocalSize, "a record's header");
  ByteCursor local(bytes, "a record's header");
  if (local.little_endian<std::uint32_t>() != kLocalSignature)
    damaged(concat("record '", entry.name, "' has no header"));
  local.take(2);
  const auto local_flags = local.little_endian<std::uint16_t>();
  const auto local_method = local.little_endian<std::uint16_t>();
  local.take(4);
  const auto local_crc = local.little_endian<std::uint32_t>();
  const auto local_size = local.little_endian<std::uint32_t>();
  local.take(4);
  const auto name_length = local.little_endian<std::uint16_t>();
  const auto extra_length = local.little_endian<std::uint16_t>();
  const auto name = bytes_at(header + kLocalSize, name_length, "a record's name");
  const bool sizes_follow = (local_flags & kSizesFollowData) != 0;
  const bool same_name = std::ranges::equal(name, std::as_bytes(std::span(entry.name)));
  const bool same_size =
      sizes_follow || ((local_size == kIn64 || local_size == entry.size) && local_crc == entry.crc);
  if (!same_name || !same_size || local_method != method || local_flags != flags) {
    damaged(concat("record '", entry.name, "' has two unlike headers"));
  }
  entry.offset = header + kLocalSize + name_length + extra_length;
}

void ZipReader::check_layout(std::uint64_t end) const {
  std::vector<const ZipEntry*> sorted;
  sorted.reserve(entries_.size());
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, &ZipEntry::offset);
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    const ZipEntry& entry = *sorted[index];
    const std::uint64_t next =
        index + 1 < sorted.size() ? std::min(end, sorted[index + 1]->offset) : end;
    if (entry.offset > next || entry.size > next - entry.offset) {
      damaged(concat("record '", entry.name, "' of ", entry.size, " bytes at byte ", entry.offset,
                     " reaches past byte ", next));
    }
  }
}

}  // namespace lockstep::checkpoint
