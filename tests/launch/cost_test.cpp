// What the launcher itself costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>

#include "base/concat.h"
#include "base/deadline.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "launch/launched.h"

namespace lockstep::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

double best_of(int times, const std::vector<std::string>& arguments) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) best = std::min(best, lockstep(arguments).seconds);
  return best;
}

// Seconds that a shell takes to start the same two programs.
double two_programs_alone(int times) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    base::Command command;
    command.path = "/bin/sh";
    command.arguments = {"sh", "-c", "/bin/true & /bin/true & wait"};
    const auto began = base::Deadline::Clock::now();
    base::spawn(command).reap();
    best =
        std::min(best, std::chrono::duration<double>(base::Deadline::Clock::now() - began).count());
  }
  return best;
}

long resident_kilobytes(pid_t pid) {
  std::ifstream in(base::concat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    long kilobytes = 0;
    if (word == "VmRSS:" && in >> kilobytes) return kilobytes;
  }
  return 0;
}

class CostTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kInstrumented) GTEST_SKIP() << "a sanitizer multiplies time and memory";
  }
};

}  // namespace

TEST_F(CostTest, Row1TwoWorkersCostMilliseconds) {
  EXPECT_LT(best_of(20, {"run", "-n", "2", "/bin/true"}) - two_programs_alone(20), 0.020);
}

TEST_F(CostTest, ManyWorkersStartInASecond) {
  EXPECT_LT(best_of(3, {"run", "-n", "256", "/bin/true"}), 1.0);
}

TEST_F(CostTest, Row1GuardianAndAgentNeedFewMegabytes) {
  Launched run({"run", "-n", "2", "sh", "-c", "echo up; sleep 300"});
  ASSERT_TRUE(run.wait_for("up", 2));
  long kilobytes = resident_kilobytes(run.pid());
  for (const base::ProcessEntry& entry : base::descendants(run.pid()))
    if (entry.parent == run.pid()) kilobytes += resident_kilobytes(entry.pid);
  EXPECT_GT(kilobytes, 0);
  EXPECT_LT(kilobytes, 10 * 1024);
  run.signal(SIGTERM);
  run.finish();
}

}  // namespace lockstep::test
