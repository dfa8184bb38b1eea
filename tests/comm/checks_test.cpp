// Ranks that disagree: every one of them is told, and nothing is summed. Cases D30, D31, D33 and
// rows 22 to 28 and 42 of the fault matrix, on each backend that runs here.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "comm/ranks.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using test::message_of;
using test::on_ranks;
using testing::AllOf;
using testing::HasSubstr;

using Call = std::function<void(Group&, at::Tensor)>;

/// Rank 0 makes one call and the others another. Each is told the same, data stay as they were, and
/// the group goes on.
template <class Matcher>
void expect_mismatch(const std::string& backend, const at::Tensor& tensor_of_0,
                     const Call& call_of_0, const at::Tensor& tensor_of_others,
                     const Call& call_of_others, const Matcher& matcher) {
  std::atomic<int> told = 0;
  on_ranks(
      3,
      [&](Group& group) {
        const bool first = group.rank() == 0;
        const at::Tensor tensor = (first ? tensor_of_0 : tensor_of_others).clone();
        const at::Tensor before = tensor.clone();
        try {
          (first ? call_of_0 : call_of_others)(group, tensor);
          ADD_FAILURE() << "rank " << group.rank() << " was told nothing";
        } catch (const MismatchError& error) {
          EXPECT_THAT(error.what(), matcher);
          EXPECT_THAT(error.what(), HasSubstr("checks_test.cpp"));
          ++told;
        }
        EXPECT_TRUE(at::equal(tensor, before));
        at::Tensor sum = at::ones({3});
        group.all_reduce(sum);
        EXPECT_EQ(sum[2].item<float>(), 3);
      },
      backend);
  EXPECT_EQ(told, 3);
}

const Call kSum = [](Group& group, at::Tensor tensor) { group.all_reduce(std::move(tensor)); };

}  // namespace

class ChecksTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, ChecksTest, testing::Values("shm", "gloo"));

TEST_P(ChecksTest, UnlikeSizes) {
  for (const auto& [mine, theirs] : {std::pair{4, 6}, {1000, 2000}, {409600, 409598}})
    expect_mismatch(
        GetParam(), at::ones({mine}), kSum, at::ones({theirs}), kSum,
        AllOf(HasSubstr("rank 0 called all_reduce(sum, float32[" + std::to_string(mine) + "]) at "),
              HasSubstr("rank 1 called all_reduce(sum, float32[" + std::to_string(theirs) +
                        "]) at ")));
}

TEST_P(ChecksTest, UnlikeDtypes) {
  expect_mismatch(GetParam(), at::ones({8}), kSum, at::ones({8}, at::kInt), kSum,
                  AllOf(HasSubstr("float32[8]"), HasSubstr("int32[8]")));
}

TEST_P(ChecksTest, UnlikeShapesOfOneSize) {
  expect_mismatch(GetParam(), at::ones({2, 3}), kSum, at::ones({3, 2}), kSum,
                  AllOf(HasSubstr("float32[2, 3]"), HasSubstr("float32[3, 2]")));
}

TEST_P(ChecksTest, UnlikeReduceOps) {
  expect_mismatch(
      GetParam(), at::ones({4}), kSum, at::ones({4}),
      [](Group& group, at::Tensor tensor) { group.all_reduce(tensor, ReduceOp::kMax); },
      AllOf(HasSubstr("all_reduce(sum, "), HasSubstr("all_reduce(max, ")));
}

TEST_P(ChecksTest, UnlikeRoots) {
  expect_mismatch(
      GetParam(), at::ones({4}),
      [](Group& group, at::Tensor tensor) { group.broadcast(tensor, 0); }, at::ones({4}),
      [](Group& group, at::Tensor tensor) { group.broadcast(tensor, 1); },
      AllOf(HasSubstr("rank 0) at"), HasSubstr("rank 1) at")));
}

TEST_P(ChecksTest, UnlikeOperationsWithTheCallsBefore) {
  expect_mismatch(
      GetParam(), at::ones({4}),
      [](Group& group, at::Tensor tensor) {
        group.barrier();
        group.all_reduce(tensor);
      },
      at::ones({4}),
      [](Group& group, at::Tensor tensor) {
        group.barrier();
        group.broadcast(tensor, 0);
      },
      AllOf(HasSubstr("rank 0 called all_reduce("), HasSubstr("rank 1 called broadcast("),
            HasSubstr("last calls of rank 0:\n    #1 barrier()"),
            HasSubstr("last calls of rank 1:\n    #1 barrier()")));
}

TEST_P(ChecksTest, OneCallShortBeforeABarrier) {
  expect_mismatch(
      GetParam(), at::ones({4}), kSum, at::ones({4}),
      [](Group& group, const at::Tensor&) { group.barrier(); },
      AllOf(HasSubstr("all_reduce("), HasSubstr("barrier()")));
}

TEST_P(ChecksTest, UnlikeTags) {
  expect_mismatch(
      GetParam(), at::ones({4}),
      [](Group& group, at::Tensor tensor) {
        group.all_reduce(tensor, ReduceOp::kSum, {.tag = "encoder"});
      },
      at::ones({4}),
      [](Group& group, at::Tensor tensor) {
        group.all_reduce(tensor, ReduceOp::kSum, {.tag = "decoder"});
      },
      AllOf(HasSubstr("\"encoder\""), HasSubstr("\"decoder\"")));
}

TEST_P(ChecksTest, AsynchronousCallsAreToldAtTheirWait) {
  const auto two = [](std::int64_t second) {
    return [second](Group& group, const at::Tensor&) {
      at::Tensor first = at::ones({5}), other = at::ones({second});
      Work a = group.all_reduce(first, ReduceOp::kSum, {.async_op = true});
      Work b = group.all_reduce(other, ReduceOp::kSum, {.async_op = true});
      a.wait();
      EXPECT_EQ(first[0].item<float>(), 3);
      b.wait();
    };
  };
  expect_mismatch(GetParam(), at::ones({1}), two(6), at::ones({1}), two(7),
                  AllOf(HasSubstr("float32[6]"), HasSubstr("float32[7]")));
}

TEST_P(ChecksTest, NothingAtAllIsNoFault) {
  on_ranks(
      3,
      [](Group& group) {
        at::Tensor none = at::empty({0});
        group.all_reduce(none);
        group.broadcast(none, 1);
        group.reduce(none, 2);
        group.all_gather(at::empty({0}), none);
        group.reduce_scatter(at::empty({0}), none);
        at::Tensor one = at::ones({1});
        group.all_reduce(one);
        EXPECT_EQ(one.item<float>(), 3);
      },
      GetParam());
}

TEST_P(ChecksTest, ReduceKeepsTheOthersInputs) {
  on_ranks(
      3,
      [](Group& group) {
        for (const std::int64_t count : {3, 100'000}) {
          at::Tensor tensor = at::full({count}, static_cast<float>(group.rank() + 1));
          group.reduce(tensor, 0);
          EXPECT_TRUE(
              at::equal(tensor, at::full({count}, group.rank() == 0 ? 6.0f : group.rank() + 1.0f)));
        }
      },
      GetParam());
}

}  // namespace lockstep
