#include "data/gzip.h"

#include <libdeflate.h>

#include <algorithm>
#include <new>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using base::concat;

constexpr std::size_t kFixedHeader = 10;
constexpr std::size_t kTrailer = 8;
constexpr std::size_t kDeflateMethod = 8;

// Flags of a member's header.
constexpr unsigned kHeaderCrc = 2;
constexpr unsigned kExtra = 4;
constexpr unsigned kName = 8;
constexpr unsigned kComment = 16;
constexpr unsigned kReserved = 0xe0;

// Deflate's best: two bits for a match of 258 bytes.
constexpr std::size_t kMaxRatio = 1032;
constexpr std::size_t kTrustedRatio = 8;
constexpr std::size_t kGrowth = 4;
constexpr std::size_t kSmallest = 4096;

std::size_t little_endian(std::span<const std::uint8_t> bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const {
    libdeflate_free_decompressor(decompressor);
  }
};

class Inflater {
 public:
  Inflater(std::span<const std::uint8_t> file, const std::filesystem::path& path)
      : file_(file), path_(path), decompressor_(libdeflate_alloc_decompressor()) {
    if (!decompressor_) throw std::bad_alloc();
  }

  SharedBytes run() {
    const std::size_t claimed = file_.size() < 4 ? 0 : little_endian(file_.last(4));
    reserve(std::clamp(claimed, kSmallest, std::max(kSmallest, kTrustedRatio * file_.size())));
    do {
      skip_header();
      inflate_member();
    } while (position_ < file_.size());
    const std::shared_ptr<std::uint8_t[]> output(std::move(output_));
    return {std::shared_ptr<std::uint8_t>(output, output.get()), size_};
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::size_t offset) const {
    throw DataError(concat(path_, ": ", what, " (at offset ", offset, " of ", file_.size(), ")"),
                    "the file is damaged: fetch it again");
  }

  // The next `count` bytes of the header.
  std::span<const std::uint8_t> take(std::size_t count) {
    if (file_.size() - position_ < count) fail("gzip header is cut short", file_.size());
    position_ += count;
    return file_.subspan(position_ - count, count);
  }

  void skip_text() {
    while (take(1)[0] != 0) {
    }
  }

  void skip_header() {
    const std::size_t begin = position_;
    if (!is_gzip(file_.subspan(begin)))
      fail(begin == 0 ? "not a gzip file" : "bytes after the end of the gzip data", begin);
    const auto header = take(kFixedHeader);
    const unsigned flags = header[3];
    if (header[2] != kDeflateMethod || (flags & kReserved) != 0)
      fail("not a gzip header that RFC 1952 knows", begin);
    if (flags & kExtra) take(little_endian(take(2)));
    if (flags & kName) skip_text();
    if (flags & kComment) skip_text();
    if (flags & kHeaderCrc) {
      const auto covered = file_.subspan(begin, position_ - begin);
      const auto crc = libdeflate_crc32(0, covered.data(), covered.size());
      if (little_endian(take(2)) != (crc & 0xffff))
        fail("gzip header does not match its CRC", begin);
    }
  }

  void inflate_member() {
    const std::size_t begin = position_;
    const auto input = file_.subspan(begin);
    std::size_t used = 0;
    std::size_t produced = 0;
    libdeflate_result result = LIBDEFLATE_INSUFFICIENT_SPACE;
    while (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
      result = libdeflate_deflate_decompress_ex(decompressor_.get(), input.data(), input.size(),
                                                output_.get() + size_, capacity_ - size_, &used,
                                                &produced);
      if (result == LIBDEFLATE_INSUFFICIENT_SPACE) grow(input.size());
    }
    if (result != LIBDEFLATE_SUCCESS)
      fail("compressed data that start here are damaged or cut short", begin);
    position_ += used;
    check_trailer({output_.get() + size_, produced});
    size_ += produced;
  }

  void check_trailer(std::span<const std::uint8_t> produced) {
    const std::size_t begin = position_;
    if (file_.size() - begin < kTrailer)
      fail("gzip data are cut short before their checksum", file_.size());
    const auto trailer = take(kTrailer);
    if (little_endian(trailer.first(4)) != libdeflate_crc32(0, produced.data(), produced.size())) {
      fail("inflated data do not match their CRC", begin);
    }
    const std::size_t claimed = little_endian(trailer.last(4));
    if (claimed != (produced.size() & 0xffffffff)) {
      fail(concat("file claims ", claimed, " inflated bytes, but ", produced.size(), " came out"),
           begin + 4);
    }
  }

  // More room for the member that `compressed` bytes are left for, while they can fill it at all.
  void grow(std::size_t compressed) {
    const std::size_t room = capacity_ - size_;
    const std::size_t most = kMaxRatio * compressed;
    if (room > most) fail("compressed data that start here are damaged", position_);
    reserve(size_ + std::min(std::max(kGrowth * room, kSmallest), most + 1));
  }

  void reserve(std::size_t capacity) {
    try {
      auto larger = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
      std::copy_n(output_.get(), size_, larger.get());
      output_ = std::move(larger);
      capacity_ = capacity;
    } catch (const std::bad_alloc&) {
      throw DataError(concat(path_, ": no memory for the ", capacity, " bytes it inflates to"));
    }
  }

  std::span<const std::uint8_t> file_;
  const std::filesystem::path& path_;
  std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor_;
  std::size_t position_ = 0;
  std::unique_ptr<std::uint8_t[]> output_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

}  // namespace

bool is_gzip(std::span<const std::uint8_t> file) {
  return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b;
}

SharedBytes gunzip(std::span<const std::uint8_t> file, const std::filesystem::path& path) {
  return Inflater(file, path).run();
}

}  // namespace lockstep::data
