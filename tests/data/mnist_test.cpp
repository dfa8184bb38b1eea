#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/data_files.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Mnist small(Transforms transforms) {
  return {at::arange(6 * 4 * 4, at::kByte).view({6, 4, 4}), at::arange(6, at::kLong),
          std::move(transforms)};
}

}  // namespace

TEST(MnistTest, BundledSetHasItsKnownValues) {
  const Mnist train = load_mnist(test::mnist_folder(), MnistSplit::kTrain);
  EXPECT_EQ(train.images().sizes(), (std::vector<std::int64_t>{60000, 28, 28}));
  EXPECT_EQ(train.images().scalar_type(), at::kByte);
  EXPECT_EQ(train.labels()[0].item<std::int64_t>(), 5);
  const at::Tensor pixels = train.images().to(at::kFloat).div(255);
  EXPECT_NEAR(pixels.mean().item<double>(), 0.1307, 5e-5);
  EXPECT_NEAR(pixels.std().item<double>(), 0.3081, 5e-5);
  const Mnist test = load_mnist(test::mnist_folder(), MnistSplit::kTest);
  EXPECT_EQ(test.size(), 10000);
  EXPECT_EQ(test.labels()[0].item<std::int64_t>(), 7);
  EXPECT_EQ(test.images()[0].sum().item<std::int64_t>(), 18454);
}

TEST(MnistTest, BatchesEqualSingleImagesBitForBit) {
  const std::int64_t indices[] = {3, 0, 3, 5};
  const Transform flip = [](at::Tensor image) { return image.flip(-1); };
  const Transform double_up = [](at::Tensor image) { return image.expand({2, -1, -1}); };
  const std::vector<Transforms> kinds = {
      {ToTensor()},
      {ToTensor(), Normalize(0.1307, 0.3081)},
      {ToTensor(), Normalize(0.5, 0.5), Normalize(-1, 3)},
      {flip, ToTensor(), Normalize(0.5, 0.5)},
      {ToTensor(), double_up, Normalize({0.5, 0.25}, {0.5, 1.0})}};
  for (const Transforms& transforms : kinds) {
    const Mnist images = small(transforms);
    const Example batch = images.get_batch(indices);
    ASSERT_EQ(batch.data.size(0), 4);
    for (std::int64_t row = 0; row < 4; ++row) {
      const Example single = images.get(indices[row]);
      EXPECT_TRUE(batch.data[row].equal(single.data));
      EXPECT_TRUE(batch.target[row].equal(single.target));
    }
  }
}

TEST(MnistTest, OutOfRangeIsRefused) {
  const Mnist images = small({ToTensor()});
  for (const std::int64_t index : {-1, 6}) {
    const std::int64_t indices[] = {0, index};
    const std::string expected = "index is " + std::to_string(index);
    EXPECT_THAT(test::error_of<UsageError>([&] { images.get(index); }), HasSubstr(expected));
    EXPECT_THAT(test::error_of<UsageError>([&] { images.get_batch(indices); }),
                HasSubstr(expected));
  }
}

TEST(MnistTest, WrongTensorsAreRefused) {
  const auto error = [](at::Tensor images, at::Tensor labels) {
    return test::error_of<UsageError>([&] { Mnist(images, labels); });
  };
  EXPECT_THAT(error(at::zeros({2, 4, 4}), at::zeros({2}, at::kLong)), HasSubstr("uint8 [N, H, W]"));
  EXPECT_THAT(error(at::zeros({2, 4, 4}, at::kByte), at::zeros({3}, at::kLong)),
              HasSubstr("for 2 images"));
  EXPECT_THAT(error(at::zeros({2, 4, 4}, at::kByte), at::zeros({2})), HasSubstr("int64 [N]"));
  const auto two_channels = [] { small({ToTensor(), Normalize({0.5, 0.5}, {0.5, 0.5})}); };
  EXPECT_THAT(test::error_of<UsageError>(two_channels), HasSubstr("have 2 channels"));
}

TEST(MnistTest, DamagedFilesAreDataErrors) {
  const base::TemporaryFolder folder;
  EXPECT_THAT(test::error_of<DataError>([&] { load_mnist(folder.path(), MnistSplit::kTest); }),
              AllOf(HasSubstr("t10k-images-idx3-ubyte"), HasSubstr("holds nothing")));
  test::write(folder.path() / "t10k-images-idx3-ubyte", test::idx({2, 28, 28}));
  test::write(folder.path() / "t10k-labels-idx1-ubyte", test::idx({3}));
  EXPECT_THAT(test::error_of<DataError>([&] { load_mnist(folder.path(), MnistSplit::kTest); }),
              HasSubstr("2 images"));
}

}  // namespace lockstep
