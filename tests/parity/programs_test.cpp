// Python's launcher runs our programs, and our launcher runs Python's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

constexpr std::chrono::minutes kLimit{4};

Finished torchrun(const std::vector<std::string>& program) {
  Program command{{LOCKSTEP_PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node", "2", "--no-python"}};
  command.words.insert(command.words.end(), program.begin(), program.end());
  return Launched(command, {{"OMP_NUM_THREADS", "1"}}).finish(base::Deadline::in(kLimit));
}

}  // namespace

TEST(TorchrunTest, StartsTheHelloExample) {
  const Finished end = torchrun({LOCKSTEP_HELLO});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("rank 0 of 2: the ranks sum to 1"));
  EXPECT_THAT(end.out, HasSubstr("rank 1 of 2: the ranks sum to 1"));
}

TEST(TorchrunTest, StartsTheMnistExample) {
  const base::TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const Finished end =
      torchrun({LOCKSTEP_EXAMPLE, "--epochs", "1", "--data", LOCKSTEP_SOURCE_DIR "/data/mnist",
                "--save", (folder.path() / "weights.pth").string(), "--report", report});
  ASSERT_EQ(end.code, 0) << end.err;
  std::ifstream file(report);
  const auto figures = nlohmann::json::parse(file);
  EXPECT_EQ(figures["world_size"], 2);
  EXPECT_GE(figures["accuracy"].get<double>(), 0.9);
}

TEST(LockstepRunTest, StartsAPythonScriptUnchanged) {
  const Launched::Variables variables{{"OMP_NUM_THREADS", "1"}, {"PYTHON_EXEC", LOCKSTEP_PYTHON}};
  const Finished end =
      Launched({"run", "-n", "2", LOCKSTEP_SOURCE_DIR "/tests/parity/ddp_script.py"}, variables)
          .finish(base::Deadline::in(kLimit));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("rank 0 of 2: equal weights"));
  EXPECT_THAT(end.out, HasSubstr("rank 1 of 2: equal weights"));
}

}  // namespace lockstep::test
