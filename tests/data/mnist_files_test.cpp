#include "data/mnist_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/file.h"
#include "data/data_files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

using test::Bytes;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";

// A folder with a small set that is right, for tests to spoil.
class MnistFilesTest : public testing::Test {
 protected:
  MnistFilesTest() {
    put(kImages, test::idx({12, 28, 28}));
    put(kLabels, test::idx({12}, 10));
  }

  void put(const fs::path& name, const Bytes& bytes) const {
    test::write(folder_.path() / name, bytes);
  }
  void move(const fs::path& from, const fs::path& to) const {
    fs::rename(folder_.path() / from, folder_.path() / to);
  }
  void make_folder(const fs::path& name) const { fs::create_directories(folder_.path() / name); }
  MnistFiles read() const { return read_mnist_files(folder_.path(), "train"); }
  std::string error() const {
    return test::error_of<DataError>([&] { read(); });
  }

  const base::TemporaryFolder folder_;
};

}  // namespace

TEST(BundledMnistTest, IsTheRealOne) {
  const MnistFiles train = read_mnist_files(test::mnist_folder(), "train");
  const MnistFiles test = read_mnist_files(test::mnist_folder(), "t10k");
  EXPECT_EQ(train.count, 60000);
  EXPECT_EQ(test.count, 10000);
  EXPECT_EQ(train.labels.view()[0], 5);
  EXPECT_EQ(test.labels.view()[0], 7);
  const auto sum = [](const SharedBytes& bytes) {
    return std::accumulate(bytes.view().begin(), bytes.view().end(), std::uint64_t{0});
  };
  EXPECT_EQ(sum(train.images), 1567298545u);
  EXPECT_EQ(sum(test.images), 264923200u);
  EXPECT_EQ(sum(train.labels), 267236u);
  EXPECT_EQ(sum(test.labels), 44434u);
}

TEST_F(MnistFilesTest, ReadsAnyCount) {
  const MnistFiles files = read();
  EXPECT_EQ(files.count, 12);
  EXPECT_EQ(files.images.size, 12u * 28 * 28);
  EXPECT_EQ(files.labels.view()[11], 1);
}

TEST_F(MnistFilesTest, FindsEveryName) {
  for (const char* name :
       {"train-images.idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte.gz"}) {
    move(kImages, name);
    EXPECT_EQ(read().count, 12) << name;
    move(name, kImages);
  }
}

TEST_F(MnistFilesTest, FindsTorchvisionsLayout) {
  make_folder("MNIST/raw");
  for (const char* name : {kImages, kLabels}) move(name, fs::path("MNIST/raw") / name);
  EXPECT_EQ(read().count, 12);
}

TEST_F(MnistFilesTest, FolderOfTheSameNameIsPassedOver) {
  move(kImages, "train-images.idx3-ubyte");
  make_folder(kImages);
  EXPECT_EQ(read().count, 12);
}

TEST_F(MnistFilesTest, MissingFileListsNamesTriedAndWhatIsThere) {
  move(kImages, "train-imags-idx3-ubyte");
  make_folder("cifar");
  EXPECT_THAT(error(), AllOf(HasSubstr(folder_.path().string()),
                             HasSubstr("train-images.idx3-ubyte.gz"), HasSubstr("MNIST/raw"),
                             HasSubstr("cifar/, train-imags-idx3-ubyte"), HasSubstr("remedy")));
}

TEST_F(MnistFilesTest, EmptyAndMissingFoldersAreTold) {
  const base::TemporaryFolder empty;
  EXPECT_THAT(test::error_of<DataError>([&] { read_mnist_files(empty.path(), "train"); }),
              HasSubstr("holds nothing"));
  EXPECT_THAT(test::error_of<DataError>([&] { read_mnist_files(empty.path() / "none", "train"); }),
              HasSubstr("No such file or directory"));
}

TEST_F(MnistFilesTest, GzipUnderThePlainNameIsRead) {
  put(kImages, test::gzip(test::idx({12, 28, 28})));
  EXPECT_EQ(read().count, 12);
}

TEST_F(MnistFilesTest, SwappedFilesAreTold) {
  move(kImages, "other");
  move(kLabels, kImages);
  move("other", kLabels);
  EXPECT_THAT(error(), AllOf(HasSubstr(kImages), HasSubstr("swapped")));
}

TEST_F(MnistFilesTest, LabelOutOfRangeIsNamedWithItsOffset) {
  Bytes labels = test::idx({12}, 10);
  labels[8 + 7] = 255;
  put(kLabels, labels);
  EXPECT_THAT(error(), AllOf(HasSubstr(kLabels), HasSubstr("label 255 of item 7 (offset 15)")));
}

TEST_F(MnistFilesTest, UnequalCountsAreTold) {
  put(kLabels, test::idx({11}, 10));
  EXPECT_THAT(error(), AllOf(HasSubstr("12 images"), HasSubstr("11 labels")));
}

TEST_F(MnistFilesTest, LabelsCutShortAreTold) {
  Bytes labels = test::idx({12}, 10);
  labels.pop_back();
  put(kLabels, labels);
  EXPECT_THAT(error(), AllOf(HasSubstr(kLabels), HasSubstr("promises 12 values, but 11 bytes")));
}

TEST_F(MnistFilesTest, EmptyDatasetIsRefused) {
  put(kImages, test::idx({0, 28, 28}));
  put(kLabels, test::idx({0}));
  EXPECT_THAT(error(), HasSubstr("the dataset is empty"));
}

TEST_F(MnistFilesTest, OtherImageSizesAreRefused) {
  put(kImages, test::idx({12, 32, 32}));
  EXPECT_THAT(error(), HasSubstr("32 x 32 pixels, MNIST's are 28 x 28"));
}

TEST_F(MnistFilesTest, UnreadableFileIsTold) {
  fs::remove(folder_.path() / kImages);
  fs::create_symlink("/proc/self/mem", folder_.path() / kImages);
  EXPECT_THAT(error(), AllOf(HasSubstr(kImages), HasSubstr("cannot")));
}

}  // namespace lockstep::data
