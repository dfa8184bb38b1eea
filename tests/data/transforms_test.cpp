#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/data_files.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string bits_of(const at::Tensor& image) {
  std::string text;
  const at::Tensor flat = image.flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    char bits[10];
    std::snprintf(bits, sizeof bits, "%s%08x", i == 0 ? "" : " ",
                  std::bit_cast<std::uint32_t>(flat.const_data_ptr<float>()[i]));
    text += bits;
  }
  return text;
}

Transforms with_normalize(const nlohmann::json& parameters) {
  if (parameters.is_null()) return {ToTensor()};
  return {ToTensor(), Normalize(parameters[0].get<double>(), parameters[1].get<double>())};
}

}  // namespace

TEST(TransformsTest, ValuesEqualTorchvisions) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/data/golden/transforms.json");
  for (const auto& golden : nlohmann::json::parse(file)) {
    const at::Tensor every_byte = at::arange(256, at::kByte).view({1, 16, 16});
    const Mnist images(every_byte, at::zeros({1}, at::kLong), with_normalize(golden["normalize"]));
    EXPECT_EQ(bits_of(images.get(0).data), golden["bits"]);
    const std::int64_t first[] = {0};
    EXPECT_EQ(bits_of(images.get_batch(first).data), golden["bits"]) << "by table";
  }
}

TEST(TransformsTest, ToTensorPutsChannelsFirst) {
  const at::Tensor image = at::arange(2 * 3 * 4, at::kByte).view({2, 3, 4});
  const at::Tensor out = ToTensor()(image);
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{4, 2, 3}));
  EXPECT_EQ(out[1][0][2].item<float>(), 9.0f / 255.0f);
  EXPECT_EQ(ToTensor()(image[0]).sizes(), (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(TransformsTest, NormalizeIsPerChannelAndLeavesItsInput) {
  const at::Tensor image = at::ones({2, 1, 1});
  const at::Tensor out = Normalize({0.5, 2.0}, {0.25, 4.0})(image);
  EXPECT_TRUE(out.flatten().equal(at::tensor({2.0f, -0.25f})));
  EXPECT_TRUE(image.equal(at::ones({2, 1, 1})));
}

TEST(TransformsTest, WrongUseIsTold) {
  const auto error = [](auto call) { return test::error_of<UsageError>(call); };
  EXPECT_THAT(error([] { Normalize(0.5, 0.0); }), HasSubstr("std has a 0"));
  EXPECT_THAT(error([] {
                Normalize({0.5}, {0.5, 0.5});
              }),
              HasSubstr("mean has 1 values and std has 2"));
  EXPECT_THAT(error([] {
                Normalize(0.5, 0.5)(at::zeros({1, 2, 2}, at::kByte));
              }),
              HasSubstr("ToTensor before it"));
  EXPECT_THAT(error([] {
                Normalize({1, 1}, {1, 1})(at::zeros({3, 2, 2}));
              }),
              HasSubstr("2 channels"));
  EXPECT_THAT(error([] { ToTensor()(at::zeros({2, 2})); }), HasSubstr("uint8 [H, W]"));
}

}  // namespace lockstep
