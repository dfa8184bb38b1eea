#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/concat.h"
#include "base/file.h"
#include "checkpoint/pickle.h"
#include "checkpoint/samples.h"
#include "checkpoint/zip_bytes.h"

/// Files that were made to do harm: an error, at a cost in proportion to their size.
namespace lockstep::test {
namespace {

using checkpoint::PickleWriter;
using testing::HasSubstr;

const std::string kStorage = std::string(16, '\0');  // of 4 floats

std::string load_pickle(const std::string& pickle) {
  const base::TemporaryFolder folder;
  const auto path = folder.path() / "hostile.pth";
  std::ofstream(path, std::ios::binary)
      << zip_bytes({{"a/data.pkl", pickle}, {"a/data/0", kStorage}});
  try {
    load_value(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

struct TensorParts {
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes = {4};
  std::vector<std::int64_t> strides = {1};
  std::int64_t elements = 4;
  std::string key = "0";
  const char* storage_class = "FloatStorage";
};

std::string load_tensor(const TensorParts& parts) {
  PickleWriter writer;
  const auto integers = [&](const std::vector<std::int64_t>& values) {
    writer.mark();
    for (const auto value : values) writer.integer(value);
    writer.make_tuple();
  };
  writer.global("torch._utils", "_rebuild_tensor_v2");
  writer.mark();
  writer.mark();
  writer.text("storage");
  writer.global("torch", parts.storage_class);
  writer.text(parts.key);
  writer.text("cpu");
  writer.integer(parts.elements);
  writer.make_tuple();
  writer.persistent();
  writer.integer(parts.offset);
  integers(parts.sizes);
  integers(parts.strides);
  writer.boolean(false);
  writer.none();
  writer.make_tuple();
  writer.call();
  return load_pickle(writer.finish());
}

// `levels` lists around the core, each of `copies` references to what came before. What a reference
// leaves on the stack below its list is never used.
std::string nested(std::size_t levels, const std::string& core, std::size_t copies) {
  std::string pickle = "\x80\x02" + core;
  for (std::size_t level = 0; level < levels; ++level) {
    const char index = static_cast<char>(level);
    pickle += std::string("q") + index + "](";
    for (std::size_t copy = 0; copy < copies; ++copy) pickle += std::string("h") + index;
    pickle += "e";
  }
  return pickle + ".";
}

}  // namespace

TEST(HostileTest, AGoodOneLoads) { EXPECT_EQ(load_tensor({}), "no error"); }

TEST(HostileTest, TensorsStayWithinTheirStorage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const TensorParts& parts : std::vector<TensorParts>{
           {.sizes = {5}},
           {.offset = 1},
           {.offset = -1},
           {.offset = kHuge},
           {.sizes = {-1}},
           {.strides = {-1}},
           {.strides = {2}},
           {.sizes = {2, 2}, .strides = {1}},
           {.sizes = {2}, .strides = {INT64_MAX}},
           {.sizes = {kHuge, kHuge, kHuge}, .strides = {0, 0, 0}},
           {.sizes = {kHuge, 4}, .strides = {kHuge, 1}},
           {.offset = 5, .sizes = {0}},
       }) {
    EXPECT_THAT(load_tensor(parts), HasSubstr("reaches out of its storage"));
  }
  EXPECT_THAT(load_tensor({.sizes = std::vector<std::int64_t>(65, 1),
                           .strides = std::vector<std::int64_t>(65, 1)}),
              HasSubstr("65 dimensions"));
}

TEST(HostileTest, StoragesAreWhatTheirRecordsAre) {
  for (const std::int64_t elements :
       {std::int64_t{5}, std::int64_t{3}, std::int64_t{-1}, INT64_MAX}) {
    EXPECT_THAT(load_tensor({.elements = elements}), HasSubstr("elements, its record has 4"));
  }
  EXPECT_THAT(load_tensor({.key = "../../etc/passwd"}), HasSubstr("is not in the file"));
  EXPECT_THAT(load_tensor({.storage_class = "float32"}), HasSubstr("is no storage class"));
}

TEST(HostileTest, NestingIsBounded) {
  const std::size_t deep = 100'000;
  EXPECT_THAT(load_pickle(base::concat("\x80\x02", std::string(deep, ']'),
                                       std::string(deep - 1, 'a'), ".")),
              HasSubstr("nested deeper"));
  EXPECT_THAT(load_pickle(std::string("\x80\x02]q\0h\0a.", 9)), HasSubstr("nested deeper"));
}

TEST(HostileTest, ReferencesDoNotMultiply) {
  // Ten references a level, twenty levels: 10^20 values from 500 bytes.
  EXPECT_THAT(load_pickle(nested(20, "]", 10)), HasSubstr("far beyond its own size"));
  // A text of one megabyte, a hundred thousand times.
  const std::string text =
      base::concat("X", std::string("\0\0\x10\0", 4), std::string(1 << 20, 'x'));
  EXPECT_THAT(load_pickle(nested(1, text, 100'000)), HasSubstr("far beyond its own size"));
}

TEST(HostileTest, WhatStandsAloneIsNoValue) {
  EXPECT_THAT(load_pickle("\x80\x02"
                          "ctorch\nfloat32\n."),
              HasSubstr("'torch.float32' stands alone"));
  EXPECT_THAT(load_pickle("\x80\x02"
                          "cos\nsystem\n."),
              HasSubstr("'os.system'"));
  EXPECT_THAT(load_pickle("\x80\x02}(NNu."), HasSubstr("None stands where a dict's key"));
  EXPECT_THAT(load_pickle("\x80\x02}(K\1NK\1Nu."), HasSubstr("the number 1 twice"));
}

}  // namespace lockstep::test
