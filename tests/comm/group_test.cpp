#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "comm/conformance.h"
#include "comm/group_impl.h"
#include "comm/ranks.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using test::message_of;
using test::on_ranks;
using testing::HasSubstr;

}  // namespace

/// Every case on every backend that runs in one process, in worlds of several sizes.
class GroupConformanceTest : public testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Backends, GroupConformanceTest,
                         testing::Combine(testing::Values("shm", "gloo"),
                                          testing::Values(1, 2, 3, 4, 8)));

TEST_P(GroupConformanceTest, EveryCase) {
  const auto [backend, size] = GetParam();
  for (const test::ConformanceCase& one : test::conformance_cases()) {
    SCOPED_TRACE(one.name);
    on_ranks(
        size,
        [&, &name = backend](Group& group) {
          EXPECT_EQ(group.backend(), group.size() == 1 ? "solo" : name);
          one.check(group);
        },
        backend);
  }
}

TEST(GroupTest, WrongCallsAreRefusedBeforeAnythingIsSent) {
  on_ranks(2, [](Group& group) {
    at::Tensor tensor = at::ones({2});
    EXPECT_THAT(message_of([&] { group.broadcast(tensor, 2); }),
                HasSubstr("root 2 is outside the group"));
    EXPECT_THAT(message_of([&] { group.all_reduce(at::Tensor()); }), HasSubstr("undefined"));
    EXPECT_THAT(message_of([&] { group.all_reduce(tensor, ReduceOp::kBitAnd); }),
                HasSubstr("bitwise"));
    EXPECT_THAT(message_of([&] { group.all_gather(at::empty({3}), tensor); }),
                HasSubstr("2 times the elements"));
    EXPECT_THAT(message_of([&] {
                  group.all_to_all(tensor, tensor, {1, 2}, {1, 1});
                }),
                HasSubstr("add up"));
    EXPECT_THAT(message_of([&] { group.send(tensor, group.rank()); }),
                HasSubstr("this rank itself"));
    EXPECT_THAT(message_of([&] { group.all_reduce(tensor.to_sparse()); }), HasSubstr("to_dense"));
    group.all_reduce(tensor);
    EXPECT_EQ(tensor[0].item<float>(), 2);
  });
}

TEST(GroupTest, SubGroupsAreIndependentAndMadeByTheirMembers) {
  // Ranks {0, 3} and {1, 2} make their groups at the same time, without the others.
  on_ranks(4, [](Group& world) {
    const bool outer = world.rank() == 0 || world.rank() == 3;
    auto group = world.new_group(outer ? std::vector<int>{3, 0} : std::vector<int>{1, 2});
    ASSERT_TRUE(group);
    EXPECT_EQ(group->size(), 2);
    EXPECT_EQ(group->rank(), world.rank() == 3 || world.rank() == 1 ? 0 : 1);
    at::Tensor sum = at::full({1}, static_cast<float>(world.rank()));
    group->all_reduce(sum);
    EXPECT_EQ(sum.item<float>(), 3);
    EXPECT_FALSE(world.new_group({(world.rank() + 1) % 4}));
  });
}

TEST(GroupTest, SubGroupsInUnlikeOrderAreAMismatchAtOnce) {
  std::atomic<int> found = 0;
  EXPECT_THROW(
      on_ranks(
          2,
          [&](Group& world) {
            try {
              world.new_group(world.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0});
            } catch (const MismatchError& error) {
              EXPECT_THAT(error.what(), HasSubstr("same order"));
              ++found;
              throw;
            }
          }),
      MismatchError);
  EXPECT_EQ(found, 2);
}

TEST(GroupTest, EachDeviceMayHaveItsBackend) {
  on_ranks(
      2,
      [](Group& group) {
        // Without a CUDA tensor nccl is not made, so this runs without a GPU.
        EXPECT_EQ(group.backend(), "cpu:gloo,cuda:nccl");
        at::Tensor sum = at::ones({2});
        group.all_reduce(sum);
        EXPECT_EQ(sum[1].item<float>(), 2);
      },
      "cpu:gloo,cuda:nccl");
  for (const char* wrong : {"cpu:gloo,tpu:x", "cpu:gloo,cuda", "cpu:gloo,cpu:shm", "cpu:best"})
    EXPECT_THROW(on_ranks(
                     2, [](Group&) {}, wrong),
                 UsageError)
        << wrong;
}

TEST(GroupTest, ManyGroupsComeAndGoAndLeaveNothing) {
  struct Held {
    std::ptrdiff_t descriptors, threads;
    std::size_t bytes;
    bool operator==(const Held&) const = default;
  };
  const auto entries_of = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  on_ranks(2, [&](Group& world) {
    const auto& arena = world.impl()->world->host_memory.arena;
    const auto use_one = [&] {
      auto group = world.new_group({0, 1}, "shm");
      at::Tensor sum = group->empty({1000}).fill_(1);
      group->all_reduce(sum, ReduceOp::kSum, {.async_op = true}).wait();
      ASSERT_EQ(sum[999].item<float>(), 2);
    };
    // By one rank, while the other waits: both are threads of this process, and looking takes a
    // descriptor.
    const auto look = [&] {
      Held held{};
      world.barrier();
      if (world.rank() == 0)
        held = {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), arena->in_use()};
      world.barrier();
      return held;
    };
    use_one();
    const Held before = look();
    for (int i = 0; i < 1000; ++i) use_one();
    EXPECT_EQ(look(), before);
  });
}

TEST(GroupTest, ABarrierNamesWhoIsMissing) {
  // Case D34: ranks 2 and 4 of 5 stay away.
  std::atomic<int> named = 0;
  on_ranks(5, [&](Group& world) {
    if (world.rank() != 2 && world.rank() != 4) {
      const std::string text =
          message_of([&] { world.barrier({.timeout = std::chrono::milliseconds(500)}); });
      EXPECT_THAT(text, HasSubstr("missing: 2, 4"));
      EXPECT_THAT(text, HasSubstr("group_test.cpp"));
      ++named;
    } else {
      // In step with the rest again: their barrier was round 1 of the exchange.
      while (named < 3) std::this_thread::yield();
      EXPECT_NO_THROW(world.barrier());
    }
  });
  EXPECT_EQ(named, 3);
}

}  // namespace lockstep
