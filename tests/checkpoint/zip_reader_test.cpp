#include "checkpoint/zip_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/zip_bytes.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using test::zip_bytes;
using testing::HasSubstr;

ByteSource source(const std::string& bytes) {
  return memory_source(std::as_bytes(std::span(bytes)));
}

std::string content(const ZipReader& zip, std::string_view name) {
  const auto bytes = zip.read(*zip.find(name), 1000);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What opening the file and reading all of it says.
std::string refusal(const std::string& bytes) {
  try {
    const ZipReader zip(source(bytes));
    for (const auto& entry : zip.entries()) zip.read(entry, 1000);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kTwo = zip_bytes({{"a/x", "hello"}, {"a/y", ""}});

}  // namespace

TEST(ZipReaderTest, ReadsRecords) {
  const ZipReader zip(source(kTwo));
  ASSERT_EQ(zip.entries().size(), 2u);
  EXPECT_EQ(content(zip, "a/x"), "hello");
  EXPECT_EQ(content(zip, "a/y"), "");
  EXPECT_EQ(zip.find("a/z"), nullptr);
}

TEST(ZipReaderTest, FindsTheDirectoryBeforeAComment) {
  std::string bytes = kTwo + "made by hand";
  bytes[kTwo.size() - 2] = 12;
  EXPECT_EQ(content(ZipReader(source(bytes)), "a/x"), "hello");
}

TEST(ZipReaderTest, EveryTruncationIsAnError) {
  for (std::size_t length = 0; length < kTwo.size(); ++length) {
    EXPECT_NE(refusal(kTwo.substr(0, length)), "no error") << length;
  }
}

TEST(ZipReaderTest, ContentsAreChecked) {
  std::string bytes = kTwo;
  bytes[bytes.find("hello")] ^= 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("'a/x' does not have its checksum"));
}

TEST(ZipReaderTest, LyingSizesCostNothing) {
  EXPECT_THAT(refusal(zip_bytes({{"x", "1", 0xfffffff0}})), HasSubstr("reaches past"));
  EXPECT_THAT(refusal(zip_bytes({{"x", "1"}}, 0xfff0)), HasSubstr("too short for its entries"));
  EXPECT_THAT(refusal(zip_bytes({{"x", "1", 2}})), HasSubstr("reaches past"));
}

TEST(ZipReaderTest, RecordsLieApart) {
  EXPECT_THAT(refusal(zip_bytes({{"x", "1"}, {"x", "2"}})), HasSubstr("two records are named 'x'"));
  EXPECT_THAT(refusal(zip_bytes({{"x", "1"}, {"y", "2", {}, 0}})), HasSubstr("two unlike headers"));
  // A whole record inside another one: the second header is real, and lies in the first's content.
  const std::string inner = zip_bytes({{"y", "2"}}).substr(0, 32);
  EXPECT_THAT(refusal(zip_bytes({{"x", inner}, {"y", "2", {}, 31}})), HasSubstr("reaches past"));
}

TEST(ZipReaderTest, CompressedRecordsAreListedButNotRead) {
  const std::string bytes = zip_bytes({{"x", "1", {}, {}, 8}});
  EXPECT_EQ(ZipReader(source(bytes)).entries().size(), 1u);
  EXPECT_THAT(refusal(bytes), HasSubstr("compressed or encrypted"));
}

TEST(ZipReaderTest, LimitsAreKept) {
  const ZipReader zip(source(kTwo));
  EXPECT_THROW(zip.read(*zip.find("a/x"), 4), CheckpointError);
}

}  // namespace lockstep::checkpoint
