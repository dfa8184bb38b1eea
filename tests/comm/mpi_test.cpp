// The mpi backend under real launchers: the ranks are this binary's child programs, which are in
// mpi_ranks.cpp and mpi_collectives.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "comm/mpirun.h"

namespace lockstep::test {
namespace {

using std::chrono::seconds;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr seconds kLimit{90};

std::string name_of(const testing::TestParamInfo<MpiLauncher>& info) { return info.param.name; }

/// What the kernel says can be had without swapping.
long available_kilobytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word && word != "MemAvailable:") {
  }
  long amount = 0;
  file >> amount;
  return amount;
}

}  // namespace

class MpiTest : public testing::TestWithParam<MpiLauncher> {
 protected:
  void SetUp() override {
    if (GetParam().program.empty())
      GTEST_SKIP() << "no mpirun and module of " << GetParam().name << " here";
  }

  Finished run(int ranks, const std::string& child, const std::vector<std::string>& arguments = {},
               const std::vector<std::string>& wrapper = {}) const {
    return mpirun(GetParam(), ranks, child, arguments, wrapper).finish(base::Deadline::in(kLimit));
  }

  /// Every rank says so at the end of its work.
  void expect_success(int ranks, const std::string& child,
                      const std::vector<std::string>& wrapper = {}) const {
    const Finished end = run(ranks, child, {}, wrapper);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_THAT(end.out, HasSubstr("rank " + std::to_string(rank) + " is done"));
  }
};
INSTANTIATE_TEST_SUITE_P(Launchers, MpiTest, testing::ValuesIn(mpi_launchers()), name_of);

TEST_P(MpiTest, ReducesEveryDtypeOpAndSize) {
  for (const int ranks : {1, 2, 3, 4}) expect_success(ranks, "reductions");
}

TEST_P(MpiTest, MovesEveryDtypeAndSize) {
  for (const int ranks : {2, 3, 4}) expect_success(ranks, "movements");
}

TEST_P(MpiTest, TransfersLongerThanOneCallAreCut) { expect_success(3, "cut"); }

TEST_P(MpiTest, CountsMayPassTwoToTheThirtyOne) {
  const long gigabytes = available_kilobytes() >> 20;
  if (gigabytes < 12) GTEST_SKIP() << "needs 12 GB of free memory, there are " << gigabytes;
  expect_success(2, "huge");
}

TEST_P(MpiTest, SubGroupsWorkAtTheSameTimeAndAreFreed) { expect_success(4, "subgroups"); }

TEST_P(MpiTest, RanksMeetThroughMpiWhereNothingSaysWhere) {
  // Without the local sizes nobody knows that all ranks are on one host: as if they were not.
  expect_success(3, "meeting",
                 {"/usr/bin/env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE", "-u", "MPI_LOCALNRANKS"});
}

TEST_P(MpiTest, ATimeoutNamesTheOperationAndTheGroupIsOver) {
  const Finished end = run(2, "timeout");
  EXPECT_THAT(end.out, ContainsRegex("a call: .*all_reduce #1 on mpi: .*mpi_ranks.cpp"));
  EXPECT_THAT(end.out, HasSubstr("within MPI: all_reduce over MPI timed out after 300 ms"));
  EXPECT_THAT(end.out, ContainsRegex("after that: an earlier all_reduce .*this group is over"));
  EXPECT_THAT(end.out, ContainsRegex("a message: .*recv over MPI timed out after 200 ms"));
  EXPECT_LT(end.seconds, 20);
}

TEST_P(MpiTest, MessagesOfUnlikeSizeAreAMismatch) {
  const Finished end = run(2, "unlike");
  EXPECT_THAT(end.out, HasSubstr("recv of 2 for 3: another size"));
  EXPECT_THAT(end.out, HasSubstr("recv of 3 for 2: another size"));
}

TEST_P(MpiTest, OneRanksFailureEndsAllWithinTwoSeconds) {
  // Case D64. The rank that fails leaves a file right before it does.
  for (const char* how : {"exit before", "exit after", "throw", "uncaught", "killed"}) {
    const base::TemporaryFolder folder;
    const auto mark = folder.path() / "fails now";
    Launched job = mpirun(GetParam(), 3, "failure", {how, mark.string()});
    const Finished end = job.finish(base::Deadline::in(kLimit));
    const auto now = std::filesystem::file_time_type::clock::now();
    ASSERT_TRUE(std::filesystem::exists(mark)) << how << "\n" << end.out << end.err;
    EXPECT_LT(now - std::filesystem::last_write_time(mark), seconds(2)) << how << end.err;
    EXPECT_NE(end.code, 0) << how;
    EXPECT_EQ(job.offspring_left(base::Deadline::in(seconds(1))), 0u) << how;
  }
}

TEST_P(MpiTest, AnExitStatusReachesTheLauncher) {
  const base::TemporaryFolder folder;
  for (const char* how : {"exit before", "exit after"})
    EXPECT_EQ(run(2, "failure", {how, (folder.path() / how).string()}).code, 3) << how;
}

}  // namespace lockstep::test
