#include "comm/conformance.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

namespace lockstep::test {
namespace {

/// Distinct by rank and index, and exact in every dtype that is reduced here.
at::Tensor data_of(int rank, std::int64_t count, at::ScalarType dtype) {
  return ((at::arange(count) * 3 + rank * 7) % 11 + 1).to(dtype);
}

void all_reduce_of_every_op_dtype_and_size(Group& group) {
  const int size = group.size();
  for (const std::int64_t count : {0, 1, 7, 1024}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong,
                             at::kByte, at::kChar}) {
      std::vector<at::Tensor> all;
      for (int rank = 0; rank < size; ++rank) all.push_back(data_of(rank, count, dtype));
      const at::Tensor stack = at::stack(all).to(at::kDouble);
      const std::map<ReduceOp, at::Tensor> expected = {{ReduceOp::kSum, stack.sum(0)},
                                                       {ReduceOp::kMin, std::get<0>(stack.min(0))},
                                                       {ReduceOp::kMax, std::get<0>(stack.max(0))}};
      for (const auto& [op, result] : expected) {
        at::Tensor tensor = all[static_cast<std::size_t>(group.rank())].clone();
        group.all_reduce(tensor, op);
        ASSERT_TRUE(at::equal(tensor.to(at::kDouble), result)) << dtype << " x " << count;
      }
    }
  }
}

void averages_and_bitwise(Group& group) {
  const int size = group.size();
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
}

void non_contiguous_in_correct_out(Group& group) {
  const int size = group.size();
  at::Tensor base = at::zeros({4, 6});
  at::Tensor strided = base.t().narrow(0, 1, 3);
  strided.fill_(group.rank() + 1);
  group.all_reduce(strided);
  EXPECT_TRUE(at::equal(strided, at::full({3, 4}, static_cast<float>(size * (size + 1) / 2))));
  EXPECT_EQ(base.select(1, 0).abs().sum().item<float>(), 0);
}

void moves_between_ranks(Group& group) {
  const int size = group.size();
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
}

void asynchronous_calls_overlap_and_wait_twice(Group& group) {
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
}

void texts_and_barriers(Group& group) {
  const int size = group.size();
  for (int round = 0; round < 3; ++round) {
    const auto texts = group.all_gather_text("from " + std::to_string(group.rank()));
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(texts.back(), "from " + std::to_string(size - 1));
    group.barrier();
  }
}

}  // namespace

const std::vector<ConformanceCase>& conformance_cases() {
  static const std::vector<ConformanceCase> cases = {
      {"AllReduceOfEveryOpDtypeAndSize", all_reduce_of_every_op_dtype_and_size},
      {"AveragesAndBitwise", averages_and_bitwise},
      {"NonContiguousInCorrectOut", non_contiguous_in_correct_out},
      {"MovesBetweenRanks", moves_between_ranks},
      {"AsynchronousCallsOverlapAndWaitTwice", asynchronous_calls_overlap_and_wait_twice},
      {"TextsAndBarriers", texts_and_barriers},
  };
  return cases;
}

}  // namespace lockstep::test
