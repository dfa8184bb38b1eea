// What lives, dies and is told when workers, launcher or agent end, whoever ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/concat.h"
#include "base/file.h"
#include "base/process_tree.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

using base::Deadline;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// A worker with two children, one of them in a session of its own.
constexpr const char* kFamily = "setsid sleep 300 & sleep 300 & echo up; wait";

pid_t agent_of(const Launched& run) {
  for (const base::ProcessEntry& entry : base::descendants(run.pid()))
    if (entry.parent == run.pid()) return entry.pid;
  return -1;
}

class Family : public testing::Test {
 protected:
  Family() : run_({"run", "-n", "2", "--shutdown-timeout", "5", "sh", "-c", kFamily}) {
    EXPECT_TRUE(run_.wait_for("up", 2));
    EXPECT_GE(run_.offspring().size(), 5u);  // the agent, two workers, their children
  }
  Launched run_;
};

}  // namespace

TEST_F(Family, Row4D52KillingTheLauncherLeavesNobody) {
  run_.signal(SIGKILL);
  EXPECT_EQ(run_.offspring_left(Deadline::in(milliseconds(1000))), 0u);
}

TEST_F(Family, KillingTheAgentLeavesNobody) {
  ::kill(agent_of(run_), SIGKILL);
  const Finished end = run_.finish();
  EXPECT_EQ(end.code, 137);
  EXPECT_THAT(end.err, HasSubstr("agent that watches the workers was killed"));
  EXPECT_EQ(run_.offspring_left(Deadline::in(milliseconds(1000))), 0u);
}

TEST_F(Family, Row5TerminatingTheLauncherEndsTheTree) {
  run_.signal(SIGTERM);
  const Finished end = run_.finish();
  EXPECT_EQ(end.code, 143);
  EXPECT_THAT(end.err, HasSubstr("SIGTERM: stopping 2 workers"));
  EXPECT_EQ(run_.offspring().size(), 0u);
}

TEST_F(Family, D52HangingUpEndsTheTree) {
  run_.signal(SIGHUP);
  EXPECT_EQ(run_.finish().code, 128 + SIGHUP);
  EXPECT_EQ(run_.offspring().size(), 0u);
}

TEST_F(Family, Row15ASignalOutsideTheListEndsTheTree) {
  run_.signal(SIGALRM);
  EXPECT_EQ(run_.finish().code, 128 + SIGALRM);
  EXPECT_EQ(run_.offspring().size(), 0u);
}

TEST(TreeTest, D51Row1AKilledWorkerEndsTheJobAtOnce) {
  Launched run({"run", "-n", "4", "sh", "-c", "echo pid $RANK $$; exec sleep 300"});
  ASSERT_TRUE(run.wait_for("pid ", 4));
  const auto killed = Deadline::Clock::now();
  for (const base::ProcessEntry& entry : base::descendants(agent_of(run))) {
    std::ifstream in(base::concat("/proc/", entry.pid, "/environ"), std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(in), {}};
    if (environment.find(std::string("\0RANK=2\0", 8)) != std::string::npos)
      ::kill(entry.pid, SIGKILL);
  }
  const Finished end = run.finish();
  EXPECT_LT(Deadline::Clock::now() - killed, milliseconds(1000));
  EXPECT_EQ(end.code, 137);
  EXPECT_EQ(end.err.find("lockstep: rank 2 failed: died of SIGKILL (signal 9)"), 0u) << end.err;
  EXPECT_THAT(end.err, HasSubstr("stopped by the launcher: ranks 0, 1, 3\n"));
  EXPECT_THAT(end.err, Not(HasSubstr("also failed")));
  EXPECT_EQ(run.offspring().size(), 0u);
}

TEST(TreeTest, Row4Row36GrandchildrenOfADeadWorkerGo) {
  Launched failed({"run", "-n", "2", "sh", "-c",
                   "setsid sleep 300 & sleep 300 & test $RANK = 0 && exit 3; wait"});
  EXPECT_EQ(failed.finish().code, 3);
  EXPECT_EQ(failed.offspring().size(), 0u);
  Launched succeeded({"run", "sh", "-c", "setsid sleep 300 & sleep 300 & exit 0"});
  EXPECT_EQ(succeeded.finish().code, 0);
  EXPECT_EQ(succeeded.offspring().size(), 0u);
}

TEST(TreeTest, Row5TheGraceIsOneSettingOnEveryPath) {
  const std::string deaf = "trap '' TERM; echo up; while :; do sleep 300; done";
  Launched told({"run", "-n", "2", "--shutdown-timeout", "0.5", "sh", "-c", deaf});
  ASSERT_TRUE(told.wait_for("up", 2));
  const auto signalled = Deadline::Clock::now();
  told.signal(SIGTERM);
  const Finished end = told.finish();
  const auto took = Deadline::Clock::now() - signalled;
  EXPECT_GE(took, milliseconds(450));
  EXPECT_LT(took, milliseconds(1500));
  EXPECT_EQ(end.code, 143);
  EXPECT_THAT(end.err, HasSubstr("still running after 0.5 s of grace"));

  Launched failing({"run", "-n", "2", "--shutdown-timeout", "0.5", "sh", "-c",
                    "test $RANK = 1 && sleep 0.3 && exit 3; " + deaf});
  const Finished failed = failing.finish();
  EXPECT_EQ(failed.code, 3);
  EXPECT_GE(failed.seconds, 0.45);
  EXPECT_LT(failed.seconds, 2.5);
}

TEST(TreeTest, D55AWorkerMayUseItsGrace) {
  Launched run({"run", "--shutdown-timeout", "20", "sh", "-c",
                "trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; sleep 300 & wait"});
  ASSERT_TRUE(run.wait_for("up"));
  run.signal(SIGTERM);
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 143);
  EXPECT_THAT(end.out, HasSubstr("saved"));
}

TEST(TreeTest, D52ASecondInterruptKillsAtOnce) {
  Launched run(
      {"run", "-n", "2", "sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 300; done"});
  ASSERT_TRUE(run.wait_for("up", 2));
  run.signal(SIGINT);
  ASSERT_TRUE(run.wait_for("Ctrl-C again"));
  const auto again = Deadline::Clock::now();
  run.signal(SIGINT);
  EXPECT_EQ(run.finish().code, 130);
  EXPECT_LT(Deadline::Clock::now() - again, milliseconds(1000));
  EXPECT_EQ(run.offspring().size(), 0u);
}

TEST(TreeTest, StoppedWorkersAreNotWaitedFor) {
  Launched run({"run", "-n", "2", "sh", "-c",
                "echo up; test $RANK = 0 && kill -STOP $$; test $RANK = 1 && sleep 0.2; exit 5"});
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 5);
  EXPECT_LT(end.seconds, 3)
      << "a stopped process cannot obey SIGTERM: waiting out the grace is in vain";
}

TEST(TreeTest, D56UserSignalsReachEveryWorkerOnceAndTheJobLives) {
  const std::string script =
      "trap 'echo USR1-$RANK' USR1; trap 'echo USR2-$RANK' USR2; trap 'exit 0' TERM; echo up; "
      "while :; do sleep 0.05; done";
  Launched run({"run", "-n", "2", "sh", "-c", script});
  ASSERT_TRUE(run.wait_for("up", 2));
  run.signal(SIGUSR1);
  ASSERT_TRUE(run.wait_for("USR1-", 2));
  run.signal(SIGUSR2);
  ASSERT_TRUE(run.wait_for("USR2-", 2));
  run.signal(SIGTERM);
  const Finished end = run.finish();
  std::vector<std::string> lines = lines_of(end.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_THAT(lines, testing::ElementsAre("USR1-0", "USR1-1", "USR2-0", "USR2-1", "up", "up"));
}

}  // namespace lockstep::test
