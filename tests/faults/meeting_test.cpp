// Processes without a launcher meet by an address or a file that they are given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "base/concat.h"
#include "base/env.h"
#include "base/file.h"
#include "base/held_port.h"
#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;

// Arguments: init method, rank, world size.
const ChildProgram meeting("meet", [](int, char** argv) {
  const auto number = [&](int at) { return static_cast<int>(*base::parse_number(argv[at])); };
  Group world = init_process_group({.init_method = argv[1],
                                    .world_size = number(3),
                                    .rank = number(2),
                                    .join_timeout = std::chrono::seconds(20)});
  torch::Tensor sum = torch::full({1}, world.rank() + 1);
  world.all_reduce(sum);
  destroy_process_group();
  return sum.item<int>() == 3 ? 0 : 99;
});

void expect_two_meet(const std::string& init_method) {
  const auto start = [&](int rank) {
    return std::make_unique<Launched>(
        Program{{this_binary(), "--child=meet", init_method, std::to_string(rank), "2"}},
        Launched::Variables{{"OMP_NUM_THREADS", "1"}});
  };
  const auto later = start(1), first = start(0);
  for (const auto& process : {first.get(), later.get()}) {
    const Finished end = process->finish();
    EXPECT_EQ(end.code, 0) << init_method << ": " << end.err;
  }
}

}  // namespace

TEST(MeetingTest, ByAnAddressWithExplicitRankAndSize) {
  const base::HeldPort port;
  expect_two_meet(concat("tcp://127.0.0.1:", port.number()));
}

TEST(MeetingTest, ByASharedFileThatIsGoneAfterwards) {
  const base::TemporaryFolder folder;
  expect_two_meet(concat("file://", (folder.path() / "meet").string()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace lockstep::test
