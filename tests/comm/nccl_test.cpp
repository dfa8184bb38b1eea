// NCCL where there are GPUs. What needs one or two of them is skipped elsewhere, and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "base/concat.h"
#include "base/file.h"
#include "comm/ranks.h"
#include "launch/launched.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::AnyOf;
using testing::HasSubstr;

/// Two processes of `child`, which meet by a file, with these local ranks.
std::vector<Finished> run_two(const std::string& child,
                              const std::vector<std::string>& local_ranks) {
  const base::TemporaryFolder folder;
  const std::string meeting = concat("file://", (folder.path() / "meet").string());
  std::vector<std::unique_ptr<Launched>> processes;
  for (const std::string& local_rank : local_ranks)
    processes.push_back(
        std::make_unique<Launched>(Program{{this_binary(), concat("--child=", child), meeting}},
                                   Launched::Variables{{"RANK", std::to_string(processes.size())},
                                                       {"WORLD_SIZE", "2"},
                                                       {"LOCAL_RANK", local_rank}}));
  std::vector<Finished> ends;
  const auto deadline = base::Deadline::in(std::chrono::seconds(90));
  for (const auto& process : processes) ends.push_back(process->finish(deadline));
  return ends;
}

Group join(char** argv) {
  return init_process_group(
      {.backend = "nccl", .init_method = argv[1], .join_timeout = std::chrono::seconds(60)});
}

const ChildProgram joining("join", [](int, char** argv) {
  join(argv);
  return 0;
});

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

template <class Body>
void expect_refused(const char* what, Body body) {
  try {
    body();
  } catch (const UsageError&) {
    return;
  }
  throw std::runtime_error(what);
}

const ChildProgram verbs("verbs", [](int, char** argv) {
  Group world = join(argv);
  const int rank = world.rank();
  const auto on_gpu = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  const at::Tensor mean = at::full({5}, static_cast<float>(rank), on_gpu);
  world.all_reduce(mean, ReduceOp::kAvg);
  expect(mean.eq(0.5).all().item<bool>(), "all_reduce");
  const at::Tensor text = at::full({4}, static_cast<float>(rank), on_gpu);
  world.broadcast(text, 1);
  expect(text.eq(1).all().item<bool>(), "broadcast");
  const at::Tensor gathered = at::empty({2}, on_gpu);
  world.all_gather(gathered, at::full({1}, static_cast<float>(rank), on_gpu));
  expect(at::equal(gathered, at::arange(2, on_gpu)), "all_gather");
  const at::Tensor part = at::empty({3}, on_gpu);
  world.reduce_scatter(part, at::arange(6, on_gpu));
  expect(at::equal(part, (at::arange(3, on_gpu) + rank * 3) * 2), "reduce_scatter");
  const at::Tensor exchanged = at::empty({2}, on_gpu);
  world.all_to_all(exchanged, at::arange(2, on_gpu) + rank * 100);
  expect(at::equal(exchanged, at::arange(2, on_gpu) * 100 + rank), "all_to_all");
  if (rank == 0) world.send(text + 6, 1);
  if (rank == 1) world.recv(text, 0);
  expect(text.eq(rank == 1 ? 7 : 1).all().item<bool>(), "send and recv");
  expect_refused("a tensor of the CPU", [&] { world.all_reduce(at::ones({1})); });
  expect_refused("a bitwise operation",
                 [&] { world.all_reduce(text.to(at::kInt), ReduceOp::kBitAnd); });
  world.all_reduce(text);
  expect(text.eq(8).all().item<bool>(), "all_reduce after the refusals");
  destroy_process_group();
  return 0;
});

const ChildProgram dying("dying", [](int, char** argv) {
  Group world = join(argv);
  const at::Tensor tensor = at::ones({1 << 20}, at::kCUDA);
  world.all_reduce(tensor);
  if (world.rank() == 1) std::raise(SIGKILL);
  try {
    world.all_reduce(tensor);
  } catch (const PeerLost& error) {
    return error.context().peer == 1 && error.context().elapsed < std::chrono::seconds(1) ? 0 : 2;
  }
  return 3;
});

}  // namespace

class NcclTest : public testing::Test {
 protected:
  static int gpus() { return static_cast<int>(torch::cuda::device_count()); }
};

TEST_F(NcclTest, SaysWhyItCannotServe) {
  if (gpus() > 0) GTEST_SKIP() << "a GPU is visible";
  std::string said;
  try {
    on_ranks(
        2, [](Group&) {}, "nccl");
  } catch (const UsageError& error) {
    said = error.what();
  }
  EXPECT_THAT(said, HasSubstr("backend 'nccl' cannot serve this group"));
  EXPECT_THAT(said, AnyOf(HasSubstr("without CUDA"), HasSubstr("no GPU is visible"),
                          HasSubstr("cuda_runtime.h")));
}

TEST_F(NcclTest, TwoRanksOnOneGpuAreRefusedOnBothByName) {
  if (gpus() < 1) GTEST_SKIP() << "no GPU";
  for (const Finished& end : run_two("join", {"0", "0"})) {
    EXPECT_EQ(end.code, 1);
    EXPECT_THAT(end.err, HasSubstr("ranks 0 and 1 would share one GPU"));
  }
}

TEST_F(NcclTest, EveryVerbOnTwoGpus) {
  if (gpus() < 2) GTEST_SKIP() << "fewer than two GPUs";
  for (const Finished& end : run_two("verbs", {"0", "1"})) EXPECT_EQ(end.code, 0) << end.err;
}

TEST_F(NcclTest, ADeadRankIsNamedWithinASecond) {
  if (gpus() < 2) GTEST_SKIP() << "fewer than two GPUs";
  const auto ends = run_two("dying", {"0", "1"});
  EXPECT_EQ(ends[0].code, 0) << ends[0].err;
  EXPECT_EQ(ends[1].code, 128 + SIGKILL);
}

}  // namespace lockstep::test
