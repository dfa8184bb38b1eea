// Ranks leave in whatever order and manner; main()'s exit code stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/concat.h"
#include "base/env.h"
#include "comm/ranks.h"
#include "launch/launched.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;

// Arguments: which rank destroys the group ("all", "none" or a number), and what main returns.
const ChildProgram leaving("leave", [](int, char** argv) {
  const std::string who = argv[1];
  Group world = init_process_group();
  torch::Tensor sum = torch::ones({1});
  world.all_reduce(sum);
  if (sum.item<int>() != world.size()) return 99;
  world.barrier();
  if (who == "throws" && world.rank() == 1) throw std::runtime_error("of its own accord");
  if (who == "all" || who == std::to_string(world.rank())) destroy_process_group();
  return static_cast<int>(base::parse_number(argv[2]).value_or(98));
});

/// The slow label asks for more.
int repeats() {
  return static_cast<int>(base::Env::of_process().number("LOCKSTEP_TEST_REPEATS").value_or(3));
}

Finished leave(int size, const std::string& who, int code) {
  return Launched({"run", "-n", std::to_string(size), this_binary(), "--child=leave", who,
                   std::to_string(code)},
                  {{"OMP_NUM_THREADS", "1"}})
      .finish();
}

void expect_kept(int size, const std::string& who, int code) {
  const Finished end = leave(size, who, code);
  EXPECT_EQ(end.code, code) << size << " ranks, destroyed by " << who << ":\n" << end.err;
  EXPECT_LT(end.seconds, 5);
}

}  // namespace

TEST(LeavingTest, Row41TheExitCodeIsKeptWithoutDestroying) {
  for (int i = 0; i < repeats(); ++i) expect_kept(2, "none", i % 2 == 0 ? 0 : 7);
}

TEST(LeavingTest, BarrierThenDestroySucceedsOnEveryRank) {
  for (int i = 0; i < repeats(); ++i) expect_kept(i % 2 == 0 ? 2 : 4, "all", 0);
}

TEST(LeavingTest, D38OneRankAloneDestroys) {
  for (const char* rank : {"0", "1"}) expect_kept(2, rank, 0);
}

TEST(LeavingTest, D38OneRankThrowsFirst) {
  const Finished end = leave(2, "throws", 0);
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_THAT(end.err, testing::HasSubstr("rank 1 failed: ended with exit code 1"));
  EXPECT_LT(end.seconds, 5);
}

TEST(LeavingTest, TheServingRankWaitsForThoseWhoStillAsk) {
  // Rank 0 is done at once; rank 1 goes on to use the store.
  for (int i = 0; i < 50; ++i) {
    on_ranks(i % 2 == 0 ? 2 : 4, [](Group& group) {
      EXPECT_EQ(group.all_gather_text("x").size(), static_cast<std::size_t>(group.size()));
    });
  }
}

}  // namespace lockstep::test
