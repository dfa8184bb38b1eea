// mpirun alone starts our programs: no launcher of ours, no addresses given by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

/// The program on two ranks; `mpirun` with its own options before.
Finished on_two_ranks(std::vector<std::string> mpirun, const std::vector<std::string>& program) {
  mpirun.insert(mpirun.end(), {"-n", "2"});
  mpirun.insert(mpirun.end(), program.begin(), program.end());
  const Launched::Variables variables{{"OMP_NUM_THREADS", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return Launched(Program{mpirun}, variables).finish(base::Deadline::in(std::chrono::minutes(2)));
}

void expect_hello(const std::vector<std::string>& mpirun) {
  const Finished end = on_two_ranks(mpirun, {LOCKSTEP_HELLO});
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("rank 0 of 2: the ranks sum to 1"));
  EXPECT_THAT(end.out, HasSubstr("rank 1 of 2: the ranks sum to 1"));
}

/// The MNIST example trains over the mpi backend.
void expect_training(const std::vector<std::string>& mpirun) {
  const base::TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const Finished end =
      on_two_ranks(mpirun, {LOCKSTEP_EXAMPLE, "--backend", "mpi", "--epochs", "1", "--data",
                            LOCKSTEP_SOURCE_DIR "/data/mnist", "--save",
                            (folder.path() / "weights.pth").string(), "--report", report});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  std::ifstream file(report);
  const auto figures = nlohmann::json::parse(file);
  EXPECT_EQ(figures["world_size"], 2);
  EXPECT_EQ(figures["backend"], "mpi");
  EXPECT_GE(figures["accuracy"].get<double>(), 0.9);
}

}  // namespace

TEST(MpiTest, OpenMpiStartsTheExamples) {
  const std::string mpirun = LOCKSTEP_OPEN_MPI;
  if (mpirun.empty()) GTEST_SKIP() << "no mpirun and module of Open MPI here";
  expect_hello({mpirun, "--oversubscribe"});
  expect_training({mpirun, "--oversubscribe"});
}

TEST(MpiTest, MpichStartsTheExamples) {
  const std::string mpirun = LOCKSTEP_MPICH;
  if (mpirun.empty()) GTEST_SKIP() << "no mpirun and module of MPICH here";
  expect_hello({mpirun});
  expect_training({mpirun});
}

}  // namespace lockstep::test
