#include "launch/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launch/report.h"

namespace lockstep::launch {
namespace {

using base::ExitStatus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

WorkerOutcome ended(int rank, ExitStatus status, bool told_to_stop = false,
                    std::vector<std::string> lines = {}) {
  WorkerOutcome worker;
  worker.rank = worker.local_rank = rank;
  worker.host = "host-a";
  worker.pid = 100 + rank;
  worker.status = status;
  worker.told_to_stop = told_to_stop;
  worker.last_lines = std::move(lines);
  worker.last_lines_of = "stderr";
  return worker;
}

}  // namespace

TEST(OutcomeTest, Row7TheCauseComesFirstAndThoseStoppedAreNoFailures) {
  const AttemptOutcome outcome =
      judge(0,
            {ended(2, ExitStatus::signaled(SIGKILL)), ended(0, ExitStatus::signaled(SIGTERM), true),
             ended(3, ExitStatus::exited(143), true), ended(1, ExitStatus::exited(0), true)},
            0);
  ASSERT_EQ(outcome.failures.size(), 1u);
  EXPECT_EQ(outcome.failures.front().rank, 2);
  EXPECT_THAT(outcome.stopped, ElementsAre(0, 1, 3));
  EXPECT_EQ(outcome.exit_code(), 137);
}

TEST(OutcomeTest, OneThatBlamesAPeerIsNotTheCause) {
  const std::vector<std::string> lost = {
      "[rank 0/2] all_reduce #7 on gloo: peer 1 (host b, pid 9) is gone"};
  const AttemptOutcome outcome =
      judge(0, {ended(0, ExitStatus::exited(1), false, lost), ended(1, ExitStatus::exited(3))}, 0);
  ASSERT_EQ(outcome.failures.size(), 2u);
  EXPECT_EQ(outcome.failures[0].rank, 1);
  EXPECT_EQ(outcome.exit_code(), 3);
  // Alone, it is all there is to report.
  EXPECT_EQ(judge(0, {ended(0, ExitStatus::exited(4), false, lost)}, 0).exit_code(), 4);
}

TEST(OutcomeTest, AnErrorFileMakesAStoppedWorkerAFailure) {
  WorkerOutcome cause = ended(1, ExitStatus::signaled(SIGTERM), true);
  cause.error = "ValueError: bad batch";
  const AttemptOutcome outcome =
      judge(0, {ended(0, ExitStatus::exited(1), false, {"Connection closed by peer"}), cause}, 0);
  EXPECT_EQ(outcome.failures.front().rank, 1);
}

TEST(OutcomeTest, ASignalToTheLauncherIsTheCauseUnlessAWorkerHadFailed) {
  EXPECT_EQ(
      judge(0,
            {ended(0, ExitStatus::exited(1), true), ended(1, ExitStatus::signaled(SIGINT), true)},
            SIGINT)
          .exit_code(),
      130);
  EXPECT_EQ(
      judge(0, {ended(0, ExitStatus::exited(9)), ended(1, ExitStatus::signaled(SIGTERM), true)},
            SIGTERM)
          .exit_code(),
      9);
  EXPECT_EQ(judge(0, {ended(0, ExitStatus::exited(0))}, 0).exit_code(), 0);
}

TEST(OutcomeTest, RanksAreListedShort) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({3, 0, 1}), "ranks 0, 1, 3");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 7, 9, 10, 11}), "ranks 0-3, 7, 9-11");
}

TEST(ReportTest, Row6EveryAttemptIsToldAndTheCauseFirst) {
  WorkerOutcome cause = ended(2, ExitStatus::signaled(SIGSEGV), false, {"about to crash"});
  cause.program = "./train --epochs 3";
  const AttemptOutcome first = judge(0, {ended(1, ExitStatus::exited(3))}, 0);
  const AttemptOutcome last = judge(1, {cause, ended(0, ExitStatus::signaled(SIGTERM), true)}, 0);
  const std::string report = failure_report({first, last}, false);
  EXPECT_EQ(report.find("lockstep: rank 2 failed: died of SIGSEGV (signal 11)"), 0u) << report;
  EXPECT_THAT(report, HasSubstr("rank 2 (local rank 2, host host-a, pid 102)"));
  EXPECT_THAT(report, HasSubstr("./train --epochs 3"));
  EXPECT_THAT(report, HasSubstr("| about to crash"));
  EXPECT_THAT(report, HasSubstr("stopped by the launcher: rank 0\n"));
  EXPECT_THAT(report,
              HasSubstr("0: rank 1 (local rank 1, host host-a, pid 101) ended with exit code 3"));
  EXPECT_THAT(report, HasSubstr("exit code 139"));
  EXPECT_THAT(report, Not(HasSubstr("\x1b")));
  EXPECT_THAT(failure_report({last}, true), HasSubstr("\x1b[1;31m"));
}

}  // namespace lockstep::launch
