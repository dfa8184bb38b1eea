// mpirun alone starts our programs: no launcher of ours, no addresses given by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/launched.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

void expect_hello(std::vector<std::string> words) {
  words.insert(words.end(), {"-n", "2", LOCKSTEP_HELLO});
  const Launched::Variables variables{{"OMP_NUM_THREADS", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const Finished end =
      Launched(Program{words}, variables).finish(base::Deadline::in(std::chrono::seconds(60)));
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("rank 0 of 2: the ranks sum to 1"));
  EXPECT_THAT(end.out, HasSubstr("rank 1 of 2: the ranks sum to 1"));
}

}  // namespace

TEST(MpiTest, OpenMpiStartsTheHelloExample) {
  const std::string mpirun = LOCKSTEP_OPEN_MPI;
  if (mpirun.empty()) GTEST_SKIP() << "no mpirun of Open MPI was found";
  expect_hello({mpirun, "--oversubscribe"});
}

TEST(MpiTest, MpichStartsTheHelloExample) {
  const std::string mpirun = LOCKSTEP_MPICH;
  if (mpirun.empty()) GTEST_SKIP() << "no mpirun of MPICH was found";
  expect_hello({mpirun});
}

}  // namespace lockstep::test
