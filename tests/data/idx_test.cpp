#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/data_files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using test::Bytes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const Bytes& file, int dimensions = 3) {
  return test::error_of<DataError>(
      [&] { parse_idx(test::shared(file), "digits-idx3-ubyte", dimensions); });
}

}  // namespace

TEST(IdxTest, ReadsDimensionsAndValues) {
  const IdxArray array = parse_idx(test::shared(test::idx({2, 3, 2})), "x", 3);
  EXPECT_THAT(array.dims, ElementsAre(2, 3, 2));
  EXPECT_EQ(array.offset, 16u);
  const auto values = array.values.view();
  EXPECT_THAT(Bytes(values.begin(), values.end()),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(IdxTest, ContentTellsGzipNotTheName) {
  const base::TemporaryFolder folder;
  for (const char* name : {"plain", "packed.gz"}) {
    test::write(folder.path() / name, test::idx({5}));
    EXPECT_THAT(read_idx(folder.path() / name, 1).dims, ElementsAre(5));
    test::write(folder.path() / name, test::gzip(test::idx({5})));
    EXPECT_THAT(read_idx(folder.path() / name, 1).dims, ElementsAre(5));
  }
}

TEST(IdxTest, ShortHeaderSaysWhatItNeeds) {
  const Bytes whole = test::idx({1, 28, 28});
  for (const int size : {0, 3, 6, 15}) {
    const std::string expected = "file has " + std::to_string(size) + " bytes, header needs 16";
    EXPECT_THAT(error_of(Bytes(whole.begin(), whole.begin() + size)),
                AllOf(HasSubstr("digits-idx3-ubyte"), HasSubstr(expected)));
  }
}

TEST(IdxTest, SizeIsCheckedToTheByte) {
  Bytes file = test::idx({2, 3, 4});
  file.push_back(0);
  EXPECT_THAT(error_of(file),
              AllOf(HasSubstr("promises 2 x 3 x 4 values, but 25 bytes"), HasSubstr("too long")));
  file.resize(file.size() - 2);
  EXPECT_THAT(error_of(file),
              AllOf(HasSubstr("promises 2 x 3 x 4 values, but 23 bytes"), HasSubstr("cut short")));
}

TEST(IdxTest, LyingDimensionsAreAnError) {
  Bytes file = test::idx({2, 3, 4});
  std::fill(file.begin() + 4, file.begin() + 16, 0xff);
  EXPECT_THAT(error_of(file),
              HasSubstr("4294967295 x 4294967295 x 4294967295 values, but 24 bytes"));
  // A product that is 24 once more than 64 bits are cut off: 2^31 * 2^31 * 4 = 2^64.
  Bytes wrapped = test::idx({0, 1, 1});
  wrapped[4] = wrapped[8] = 0x80;
  wrapped[11] = 0;
  wrapped[15] = 4;
  EXPECT_THAT(error_of(wrapped), HasSubstr("but 0 bytes follow"));
}

TEST(IdxTest, OtherFilesAreRefusedByTheirMagic) {
  EXPECT_THAT(error_of(test::idx({24})),
              AllOf(HasSubstr("1 dimensions where 3"), HasSubstr("swapped")));
  EXPECT_THAT(error_of(test::idx({2, 3, 4}), 1),
              AllOf(HasSubstr("3 dimensions where 1"), HasSubstr("swapped")));
  Bytes floats = test::idx({2, 3, 4});
  floats[2] = 0x0d;
  EXPECT_THAT(error_of(floats), AllOf(HasSubstr("0x00000d03"), HasSubstr("0x00000803")));
  EXPECT_THAT(error_of(test::gzip(test::gzip(Bytes(100)))), HasSubstr("0x1f8b"));
}

}  // namespace lockstep::data
