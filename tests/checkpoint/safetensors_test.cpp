#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "checkpoint/dtypes.h"
#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

StateDict sample() {
  StateDict state;
  for (const auto& item : every_dtype()) {
    if (checkpoint::find_dtype(item.value().scalar_type())->safetensors)
      state.insert(item.key(), item.value());
  }
  state.insert("empty", torch::zeros({0, 3}));
  state.insert("scalar", torch::tensor(2.5));
  state.insert("odd", torch::ones(3, at::kBool));
  state.insert("transposed", torch::arange(6).reshape({2, 3}).t());
  return state;
}

void write(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

std::string refusal(const fs::path& path) {
  try {
    load_safetensors(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

bool same_state(const StateDict& left, const StateDict& right) {
  return left.keys() == right.keys() && std::ranges::all_of(left, [&](const auto& item) {
           return same(item.value(), right[item.key()]);
         });
}

}  // namespace

TEST(SafetensorsTest, RoundTrip) {
  const base::TemporaryFolder folder;
  save_safetensors(sample(), folder.path() / "x.safetensors");
  EXPECT_TRUE(same_state(load_safetensors(folder.path() / "x.safetensors"), sample()));
}

TEST(SafetensorsTest, WhatTheFormatLacksIsNamed) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  StateDict state;
  state.insert("wide", torch::ones(2, at::kComplexDouble));
  try {
    save_safetensors(state, path);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'wide', complex128[2]"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsTest, FlippedBitsAreNeverSilent) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  save_safetensors(sample(), path);
  const auto good = base::read_file(path);
  std::mt19937 random(72);
  for (int round = 0; round < 300; ++round) {
    auto bytes = good;
    bytes[random() % bytes.size()] ^= std::byte{1} << random() % 8;
    write(path, bytes);
    try {
      EXPECT_TRUE(same_state(load_safetensors(path), sample()));
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  }
}

// D72: a header of 2^63, -1 or 0 bytes, and every cut.
TEST(SafetensorsTest, LyingLengthsAndCutsAreErrors) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  save_safetensors(state_dict(*network()), path);
  const auto good = base::read_file(path);
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{99'999'999}}) {
    auto bytes = good;
    std::memcpy(bytes.data(), &length, sizeof length);
    write(path, bytes);
    EXPECT_THAT(refusal(path), HasSubstr("header")) << length;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(path, std::span(good).first(size));
    EXPECT_THAT(refusal(path), HasSubstr(path.string())) << size;
  }
}

TEST(SafetensorsTest, ShapeAndBytesAgree) {
  const base::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.safetensors";
  const auto say = [&](const std::string& dtype, const std::string& shape) {
    const std::string json =
        R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,8]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(json.size());
    file += json + std::string(8, '\1');
    write(path, std::as_bytes(std::span(file)));
    return refusal(path);
  };
  EXPECT_EQ(say("F32", "[2]"), "no error");
  EXPECT_THAT(say("F32", "[3]"), HasSubstr("does not have the 8 bytes"));
  EXPECT_THAT(say("F32", "[0,2]"), HasSubstr("does not have the 8 bytes"));
  EXPECT_THAT(say("F32", "[4611686018427387904,4611686018427387904]"),
              HasSubstr("does not have the 8 bytes"));
  EXPECT_THAT(say("F33", "[2]"), HasSubstr("unknown dtype 'F33'"));
}

}  // namespace lockstep::test
