// A rank goes in the middle of the work: what the others see, and what the launcher tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <regex>

#include "base/concat.h"
#include "base/env.h"
#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::HasSubstr;
using testing::Not;

constexpr int kStepsBefore = 20;
constexpr int kVictim = 2;

// One clock for all processes of this host.
long long milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void say(const std::string& line) {
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

// Arguments: "kill", "segv", or the code to exit with.
const ChildProgram reducing("reduce-until-one-goes", [](int, char** argv) {
  // The launcher stops the survivors; here they are to live on until they know by themselves.
  std::signal(SIGTERM, SIG_IGN);
  Group world = init_process_group();
  torch::Tensor tensor = torch::ones({1000});
  try {
    for (int step = 0;; ++step) {
      if (step == kStepsBefore && world.rank() == kVictim) {
        say(concat("gone at ", milliseconds_now()));
        if (std::string(argv[1]) == "kill") ::raise(SIGKILL);
        if (std::string(argv[1]) == "segv") ::raise(SIGSEGV);
        std::exit(static_cast<int>(base::parse_number(argv[1]).value_or(1)));
      }
      world.all_reduce(tensor, ReduceOp::kAvg);
    }
  } catch (const PeerLost& lost) {
    say(concat("lost ", lost.context().peer.value_or(-1), " at ", milliseconds_now()));
    say(lost.what());
    return 5;
  }
});

struct Story {
  Finished end;
  std::size_t orphans = 0;
  std::vector<long long> noticed_after;  ///< milliseconds, one for each survivor
};

Story run_four(const std::string& how) {
  Launched run({"run", "-n", "4", this_binary(), "--child=reduce-until-one-goes", how},
               {{"OMP_NUM_THREADS", "1"}});
  Story story{.end = run.finish()};
  story.orphans = run.offspring().size();
  const std::string& said = story.end.out;
  std::smatch gone;
  if (!std::regex_search(said, gone, std::regex("gone at (\\d+)"))) return story;
  const std::regex loss(concat("lost ", kVictim, " at (\\d+)"));
  for (auto it = std::sregex_iterator(said.begin(), said.end(), loss); it != std::sregex_iterator();
       ++it)
    story.noticed_after.push_back(std::stoll((*it)[1]) - std::stoll(gone[1]));
  return story;
}

void expect_prompt_and_typed(const Story& story) {
  EXPECT_TRUE(story.end.in_time);
  EXPECT_EQ(story.noticed_after.size(), 3u) << story.end.out << story.end.err;
  for (const long long after : story.noticed_after) EXPECT_LE(after, 1000);
  EXPECT_EQ(story.orphans, 0u);
  EXPECT_THAT(story.end.out, HasSubstr("all_reduce #"));
  EXPECT_THAT(story.end.err, Not(HasSubstr("SIGABRT")));
  // One root cause.
  const auto first = story.end.err.find("lockstep: rank ");
  EXPECT_EQ(story.end.err.find("lockstep: rank ", first + 1), std::string::npos) << story.end.err;
}

}  // namespace

TEST(LossTest, D51Row1AKilledRankIsNamedByTheOthersWithinASecond) {
  const Story story = run_four("kill");
  expect_prompt_and_typed(story);
  EXPECT_EQ(story.end.code, 128 + SIGKILL);
  EXPECT_THAT(story.end.err, HasSubstr("lockstep: rank 2 failed: died of SIGKILL (signal 9)"));
}

TEST(LossTest, Row2AnExitCodeIsKeptAndSurvivorsUnwind) {
  const Story story = run_four("3");
  expect_prompt_and_typed(story);
  EXPECT_EQ(story.end.code, 3);
  EXPECT_THAT(story.end.err, HasSubstr("lockstep: rank 2 failed: ended with exit code 3"));
}

TEST(LossTest, Row27ARankThatEndsInOrderACallShortIsNamedWithItsLastCall) {
  const Story story = run_four("0");
  EXPECT_EQ(story.noticed_after.size(), 3u) << story.end.out << story.end.err;
  EXPECT_THAT(story.end.out, HasSubstr("has left the group"));
  EXPECT_THAT(story.end.out, HasSubstr(concat("last call: all_reduce #", kStepsBefore, " ")));
}

TEST(LossTest, AFaultInMemoryIsToldAsOne) {
  const Story story = run_four("segv");
  expect_prompt_and_typed(story);
  EXPECT_EQ(story.end.code, 128 + SIGSEGV);
}

}  // namespace lockstep::test
