#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "comm/ranks.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using test::message_of;
using test::on_ranks;
using testing::HasSubstr;

/// Distinct by rank and index, and exact in every dtype that is reduced here.
at::Tensor data_of(int rank, std::int64_t count, at::ScalarType dtype) {
  return ((at::arange(count) * 3 + rank * 7) % 11 + 1).to(dtype);
}

}  // namespace

class GroupConformanceTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GroupConformanceTest, testing::Values(1, 2, 3, 4));

TEST_P(GroupConformanceTest, AllReduceOfEveryOpDtypeAndSize) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    for (const std::int64_t count : {0, 1, 7, 1024}) {
      for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt,
                               at::kLong, at::kByte, at::kChar}) {
        std::vector<at::Tensor> all;
        for (int rank = 0; rank < size; ++rank) all.push_back(data_of(rank, count, dtype));
        const at::Tensor stack = at::stack(all).to(at::kDouble);
        const std::map<ReduceOp, at::Tensor> expected = {
            {ReduceOp::kSum, stack.sum(0)},
            {ReduceOp::kMin, std::get<0>(stack.min(0))},
            {ReduceOp::kMax, std::get<0>(stack.max(0))}};
        for (const auto& [op, result] : expected) {
          at::Tensor tensor = all[static_cast<std::size_t>(group.rank())].clone();
          group.all_reduce(tensor, op);
          ASSERT_TRUE(at::equal(tensor.to(at::kDouble), result)) << dtype << " x " << count;
        }
      }
    }
  });
}

TEST_P(GroupConformanceTest, AveragesAndBitwise) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    at::Tensor mean = at::full({5}, static_cast<double>(group.rank()));
    group.all_reduce(mean, ReduceOp::kAvg);
    EXPECT_TRUE(at::allclose(mean, at::full({5}, (size - 1) / 2.0)));
    at::Tensor bits = at::full({3}, 1 << group.rank(), at::kInt);
    group.all_reduce(bits, ReduceOp::kBitOr);
    EXPECT_EQ(bits[0].item<int>(), (1 << size) - 1);
    at::Tensor complex =
        at::complex(at::full({2}, 1.0f), at::full({2}, static_cast<float>(group.rank())));
    group.all_reduce(complex);
    EXPECT_EQ(at::real(complex)[0].item<float>(), size);
    EXPECT_EQ(at::imag(complex)[1].item<float>(), size * (size - 1) / 2.0f);
  });
}

TEST_P(GroupConformanceTest, NonContiguousInCorrectOut) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    at::Tensor base = at::zeros({4, 6});
    at::Tensor strided = base.t().narrow(0, 1, 3);
    strided.fill_(group.rank() + 1);
    group.all_reduce(strided);
    EXPECT_TRUE(at::equal(strided, at::full({3, 4}, static_cast<float>(size * (size + 1) / 2))));
    EXPECT_EQ(base.select(1, 0).abs().sum().item<float>(), 0);
  });
}

TEST_P(GroupConformanceTest, MovesBetweenRanks) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    const int rank = group.rank(), root = size - 1;
    at::Tensor text = at::full({4}, rank, at::kLong);
    group.broadcast(text, root);
    EXPECT_EQ(text[3].item<int>(), root);

    at::Tensor reduced = at::full({4}, static_cast<float>(rank + 1));
    group.reduce(reduced, root);
    EXPECT_EQ(reduced[0].item<float>(), rank == root ? size * (size + 1) / 2 : rank + 1);

    at::Tensor gathered = at::empty({size * 2}, at::kLong);
    group.all_gather(gathered, at::full({2}, rank, at::kLong));
    EXPECT_TRUE(at::equal(gathered, at::arange(size).repeat_interleave(2)));

    at::Tensor part = at::empty({3});
    group.reduce_scatter(part, at::arange(size * 3).to(at::kFloat));
    EXPECT_TRUE(at::equal(part, (at::arange(3) + rank * 3).to(at::kFloat) * size));

    at::Tensor exchanged = at::empty({size}, at::kLong);
    group.all_to_all(exchanged, at::arange(size) + rank * 100);
    EXPECT_TRUE(at::equal(exchanged, at::arange(size) * 100 + rank));

    std::vector<at::Tensor> collected;
    if (rank == root)
      for (int i = 0; i < size; ++i) collected.push_back(at::empty({2}));
    group.gather(collected, at::full({2}, static_cast<float>(rank)), root);
    for (std::size_t i = 0; i < collected.size(); ++i) EXPECT_EQ(collected[i][1].item<float>(), i);

    std::vector<at::Tensor> dealt;
    if (rank == 0)
      for (int i = 0; i < size; ++i) dealt.push_back(at::full({2}, static_cast<float>(i)));
    at::Tensor mine = at::empty({2});
    group.scatter(mine, dealt, 0);
    EXPECT_EQ(mine[0].item<float>(), rank);

    if (size == 1) return;
    at::Tensor token = at::full({1}, static_cast<float>(rank));
    if (rank == 0) group.send(token, root, 5);
    if (rank == root) group.recv(token, 0, 5);
    if (rank == root) {
      EXPECT_EQ(token.item<float>(), 0);
    }
  });
}

TEST_P(GroupConformanceTest, AsynchronousCallsOverlapAndWaitTwice) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 16; ++i) {
      tensors.push_back(at::full({100}, static_cast<float>(i)));
      works.push_back(group.all_reduce(tensors.back(), ReduceOp::kAvg, {.async_op = true}));
    }
    for (int i = 15; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      works[at].wait();
      works[at].wait();
      EXPECT_TRUE(works[at].is_completed());
      EXPECT_EQ(tensors[at][99].item<float>(), i);
    }
  });
}

TEST_P(GroupConformanceTest, TextsAndBarriers) {
  const int size = GetParam();
  on_ranks(size, [&](Group& group) {
    for (int round = 0; round < 3; ++round) {
      const auto texts = group.all_gather_text("from " + std::to_string(group.rank()));
      ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
      EXPECT_EQ(texts.back(), "from " + std::to_string(size - 1));
      group.barrier();
    }
  });
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
