// What the MNIST example says to wrong input: a message with the remedy, a non-zero exit, no file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ExampleTest : public testing::Test {
 protected:
  /// Runs the example where its output would go into `folder()`.
  Finished run(std::vector<std::string> arguments, Launched::Variables variables = {},
               std::vector<std::string> wrapper = {}) {
    Program program{std::move(wrapper)};
    program.words.insert(program.words.end(), {LOCKSTEP_EXAMPLE, "--save", weights(), "--report",
                                               (folder() / "report.json").string()});
    program.words.insert(program.words.end(), arguments.begin(), arguments.end());
    variables.emplace("OMP_NUM_THREADS", "1");
    return Launched(program, variables).finish();
  }

  void expect_refused(const Finished& end, const testing::Matcher<std::string>& says) {
    EXPECT_TRUE(end.in_time);
    EXPECT_GT(end.code, 0);
    EXPECT_LT(end.code, 128) << "died of a signal";
    EXPECT_THAT(end.err, says);
    EXPECT_TRUE(fs::is_empty(folder())) << "something was written";
  }

  const fs::path& folder() const { return folder_.path(); }
  std::string weights() const { return (folder() / "weights.pth").string(); }

 private:
  base::TemporaryFolder folder_;
};

std::string mnist() { return LOCKSTEP_SOURCE_DIR "/data/mnist"; }

/// A small set of `count` black images of digit 0, for both splits.
void write_digits(const fs::path& folder, unsigned char count) {
  const auto write = [&](const char* name, std::string header, std::size_t bytes) {
    header += std::string(bytes, '\0');
    std::ofstream(folder / name, std::ios::binary) << header;
  };
  const std::string images{0, 0, 8, 3, 0, 0, 0, static_cast<char>(count), 0, 0, 0, 28, 0, 0, 0, 28};
  const std::string labels{0, 0, 8, 1, 0, 0, 0, static_cast<char>(count)};
  for (const std::string split : {"train", "t10k"}) {
    write((split + "-images-idx3-ubyte").c_str(), images, count * std::size_t{28 * 28});
    write((split + "-labels-idx1-ubyte").c_str(), labels, count);
  }
}

}  // namespace

TEST_F(ExampleTest, ABatchOfNothing) {
  expect_refused(run({"--data", mnist(), "--batch", "0"}), HasSubstr("--batch"));
}

TEST_F(ExampleTest, DataThatIsNotThere) {
  expect_refused(run({"--data", "/nowhere/mnist"}),
                 AllOf(HasSubstr("/nowhere/mnist"), HasSubstr("remedy:")));
}

TEST_F(ExampleTest, ARankOutsideTheWorld) {
  expect_refused(run({"--data", mnist()}, {{"RANK", "5"}, {"WORLD_SIZE", "2"}}),
                 AllOf(HasSubstr("RANK=5"), HasSubstr("WORLD_SIZE=2"), HasSubstr("remedy:")));
}

TEST_F(ExampleTest, HalfSetVariables) {
  expect_refused(run({"--data", mnist()}, {{"RANK", "0"}}), HasSubstr("WORLD_SIZE"));
  expect_refused(
      run({"--data", mnist()}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}),
      HasSubstr("MASTER_PORT"));
}

TEST_F(ExampleTest, AMalformedInitMethod) {
  for (const char* method : {"tcp://127.0.0.1", "carrier-pigeon://loft", "tcp://host:port"}) {
    expect_refused(
        run({"--data", mnist(), "--init-method", method, "--rank", "0", "--world-size", "2"}),
        AllOf(HasSubstr(method), HasSubstr("remedy:")));
  }
}

TEST_F(ExampleTest, AnUnknownBackend) {
  expect_refused(run({"--data", mnist(), "--backend", "smoke", "--init-method", "unix:/tmp/none",
                      "--rank", "0", "--world-size", "2"}),
                 AllOf(HasSubstr("'smoke'"), HasSubstr("gloo")));
}

TEST_F(ExampleTest, AGpuThatIsNotThere) {
  // -1 hides those that are.
  expect_refused(run({"--data", mnist(), "--device", "cuda"}, {{"CUDA_VISIBLE_DEVICES", "-1"}}),
                 AllOf(HasSubstr("no GPU is visible"), HasSubstr("remedy:")));
}

TEST_F(ExampleTest, AFolderThatIsNotThereIsToldBeforeTheTraining) {
  const fs::path missing = folder() / "none";
  for (const char* flag : {"--save", "--report"}) {
    const Finished end =
        Launched(Program{{LOCKSTEP_EXAMPLE, "--data", mnist(), flag, (missing / "file").string()}})
            .finish();
    expect_refused(end, AllOf(HasSubstr(flag), HasSubstr("mkdir -p " + missing.string())));
    EXPECT_THAT(end.out, Not(HasSubstr("epoch")));
  }
  const Finished end =
      Launched(Program{{LOCKSTEP_EXAMPLE, "--data", mnist(), "--save", folder().string()}})
          .finish();
  expect_refused(end, HasSubstr("it is a folder"));
}

TEST_F(ExampleTest, AReadOnlyFolderKeepsTheOldFile) {
  const base::TemporaryFolder data;
  write_digits(data.path(), 50);
  std::ofstream(weights()) << "old";
  fs::permissions(data.path(), fs::perms(0755));
  fs::permissions(folder(), fs::perms(0555));
  std::vector<std::string> as_nobody;
  if (::geteuid() == 0) {
    if (!fs::exists("/usr/bin/setpriv")) GTEST_SKIP() << "root may write anywhere; no setpriv";
    as_nobody = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  }
  const Finished end = run({"--data", data.path().string(), "--epochs", "1"}, {}, as_nobody);
  EXPECT_GT(end.code, 0);
  EXPECT_LT(end.code, 128);
  EXPECT_THAT(end.err, AllOf(HasSubstr(weights()), HasSubstr("remedy:")));
  std::ifstream file(weights());
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
  fs::permissions(folder(), fs::perms(0755));
}

}  // namespace lockstep::test
