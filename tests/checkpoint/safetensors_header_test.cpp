#include "checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;
using testing::HasSubstr;

std::string refusal(const std::string& json, std::uint64_t data_bytes = 8) {
  try {
    parse_safetensors_header(json, data_bytes);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

std::string tensor(const std::string& offsets, const std::string& shape = "[2]") {
  return concat(R"({"dtype":"F32","shape":)", shape, R"(,"data_offsets":)", offsets, "}");
}

}  // namespace

TEST(SafetensorsHeaderTest, RoundTrip) {
  const SafetensorsHeader header{.entries = {{"a", "F32", {2}, 0, 8}, {"b.π", "U8", {}, 8, 9}},
                                 .checksum = "0123abcd"};
  const std::string text = safetensors_header_text(header);
  EXPECT_EQ(text.size() % 8, 0u);
  const auto parsed = parse_safetensors_header(text, 9);
  EXPECT_EQ(parsed.checksum, "0123abcd");
  ASSERT_EQ(parsed.entries.size(), 2u);
  EXPECT_EQ(parsed.entries[1].name, "b.π");
  EXPECT_EQ(parsed.entries[0].shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(parsed.entries[1].end, 9u);
  SafetensorsHeader blank = header;
  blank.checksum = "00000000";
  EXPECT_EQ(without_checksum(text, header.checksum), safetensors_header_text(blank));
}

// D72: offsets empty, inverted, past the end, overlapping, with gaps.
TEST(SafetensorsHeaderTest, OffsetsFillTheData) {
  EXPECT_EQ(refusal(concat(R"({"a":)", tensor("[0,8]"), "}")), "no error");
  for (const char* offsets :
       {"[]", "[0]", "[8,0]", "[0,9]", "[1,8]", "[0,7]", "[-8,8]", "[0,1e3]", "[0,8,8]", "\"0\"",
        "[0,18446744073709551615]", "[9223372036854775808,8]"}) {
    EXPECT_THAT(refusal(concat(R"({"a":)", tensor(offsets), "}")), HasSubstr("malformed"))
        << offsets;
  }
  EXPECT_THAT(refusal(concat(R"({"a":)", tensor("[0,8]"), R"(,"b":)", tensor("[0,8]"), "}")),
              HasSubstr("'b' lies at bytes 0 to 8"));
  EXPECT_THAT(refusal(concat(R"({"a":)", tensor("[0,6]"), R"(,"b":)", tensor("[4,8]"), "}")),
              HasSubstr("malformed"));
  EXPECT_THAT(refusal("{}"), HasSubstr("its tensors have 0 bytes, the file has 8"));
}

TEST(SafetensorsHeaderTest, FieldsAreOfTheirKind) {
  for (const char* json : {"", "[]", "{", "7", R"({"a":1})", R"({"a":{}})",
                           R"({"a":{"dtype":1,"shape":[2],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})"}) {
    EXPECT_THAT(refusal(json), HasSubstr("malformed")) << json;
  }
  EXPECT_THAT(refusal(concat(R"({"a":)", tensor("[0,8]"), R"(,"a":)", tensor("[0,8]"), "}")),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(refusal(concat(R"({"a":)", std::string(1'000'000, '['))),
              HasSubstr("nested too deep"));
}

}  // namespace lockstep::checkpoint
