#include "data/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/allocations.h"
#include "data/data_files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using test::Bytes;
using test::gzip;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kName = "digits.gz";

Bytes inflate(const Bytes& file) {
  const SharedBytes out = gunzip(file, kName);
  return {out.view().begin(), out.view().end()};
}

std::string error_of(const Bytes& file) {
  return test::error_of<DataError>([&] { gunzip(file, kName); });
}

Bytes digits(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * i >> 7);
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST(GzipTest, InflatesWhatGzipMade) {
  for (const std::size_t size : {0, 1, 1000, 1'000'000})
    EXPECT_EQ(inflate(gzip(digits(size))), digits(size));
}

TEST(GzipTest, InflatesFarMoreThanTheFileSuggests) {
  EXPECT_EQ(inflate(gzip(Bytes(50'000'000, 7))), Bytes(50'000'000, 7));
}

TEST(GzipTest, InflatesSeveralMembers) {
  const Bytes large(3'000'000, 1);
  EXPECT_EQ(inflate(gzip(digits(10)) + gzip({}) + gzip(large) + gzip(digits(5))),
            digits(10) + large + digits(5));
}

TEST(GzipTest, SkipsEveryOptionalHeaderField) {
  Bytes file = gzip(digits(100));
  const Bytes body(file.begin() + 10, file.end());
  file.resize(10);
  file[3] = 2 | 4 | 8 | 16;
  file = file + Bytes{3, 0, 'a', 'b', 'c'} + Bytes{'n', 0} + Bytes{'t', 'o', 0};
  const auto crc = libdeflate_crc32(0, file.data(), file.size());
  const Bytes right = {static_cast<std::uint8_t>(crc), static_cast<std::uint8_t>(crc >> 8)};
  EXPECT_EQ(inflate(file + right + body), digits(100));
  const Bytes wrong = {right[0], static_cast<std::uint8_t>(right[1] ^ 1)};
  EXPECT_THAT(error_of(file + wrong + body), HasSubstr("header does not match its CRC"));
}

TEST(GzipTest, EveryCutIsAnError) {
  const Bytes whole = gzip(digits(400));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(error_of(cut), AllOf(HasSubstr(kName), HasSubstr("offset"), HasSubstr("remedy")))
        << size;
  }
}

TEST(GzipTest, TrailingBytesAreAnErrorAtTheirOffset) {
  const Bytes whole = gzip(digits(400));
  const std::string offset = "offset " + std::to_string(whole.size());
  for (const Bytes& tail : {Bytes{0}, Bytes{'x'}, Bytes(100, 0)}) {
    EXPECT_THAT(error_of(whole + tail), AllOf(HasSubstr("bytes after the end"), HasSubstr(offset)));
  }
  EXPECT_THAT(error_of(whole + Bytes{0x1f, 0x8b}), HasSubstr("cut short"));
}

TEST(GzipTest, WrongChecksumIsAnError) {
  Bytes file = gzip(digits(400));
  file[file.size() - 8] ^= 1;
  EXPECT_THAT(error_of(file), HasSubstr("do not match their CRC"));
}

TEST(GzipTest, LyingSizesAreAnErrorWithoutTheMemory) {
  for (const std::uint8_t high : {0x00, 0x7f, 0xff}) {
    Bytes file = gzip(digits(400));
    file.back() = high;
    file[file.size() - 2] = 0xff;
    test::largest_allocation();
    EXPECT_THAT(error_of(file), HasSubstr("inflated bytes, but 400 came out")) << int{high};
    EXPECT_LT(test::largest_allocation(), 8192u);
  }
}

TEST(GzipTest, OtherBytesAreNotGzip) {
  EXPECT_THAT(error_of({'P', 'K', 3, 4}), HasSubstr("not a gzip file"));
  Bytes other_method = gzip(digits(10));
  other_method[2] = 9;
  EXPECT_THAT(error_of(other_method), HasSubstr("RFC 1952"));
}

}  // namespace lockstep::data
