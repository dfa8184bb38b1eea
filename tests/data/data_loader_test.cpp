#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "data/data_files.h"
#include "data/threads.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using Indices = std::vector<std::int64_t>;

// Item i is the number i. `delay` makes threads overtake each other.
struct Numbers {
  std::int64_t count = 0;
  bool delay = false;

  std::int64_t size() const { return count; }
  Example get(std::int64_t index) const {
    if (delay) std::this_thread::sleep_for(std::chrono::microseconds(index * 7919 % 300));
    return {at::scalar_tensor(index, at::kFloat), at::scalar_tensor(index, at::kLong)};
  }
};

Indices numbers_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.to(at::kLong).contiguous();
  const auto* const begin = whole.const_data_ptr<std::int64_t>();
  return {begin, begin + whole.numel()};
}

std::vector<Indices> batches_of(DataLoader& loader) {
  std::vector<Indices> batches;
  for (const Batch& batch : loader) {
    EXPECT_TRUE(batch.data.to(at::kLong).equal(batch.target));
    batches.push_back(numbers_of(batch.target));
  }
  return batches;
}

Indices joined(const std::vector<Indices>& batches) {
  Indices all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace

TEST(DataLoaderTest, BatchesAreTheSamplersOrder) {
  DistributedSampler sampler(10, {.num_replicas = 2, .rank = 1});
  DataLoader loader(Numbers{10}, sampler, {.batch_size = 2});
  const Indices order = sampler.indices();
  EXPECT_EQ(loader.size(), 3);
  const auto batches = batches_of(loader);
  EXPECT_THAT(batches, SizeIs(3));
  EXPECT_EQ(joined(batches), order);
}

TEST(DataLoaderTest, WithoutSamplerTheDatasetsOrder) {
  DataLoader loader(Numbers{5}, {.batch_size = 2});
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_THAT(batches_of(loader),
                ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  }
}

// D1: the epoch set on the user's own sampler takes effect.
TEST(DataLoaderTest, ObeysTheUsersSampler) {
  std::vector<Indices> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Indices both;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      DistributedSampler sampler(8, {.num_replicas = 2, .rank = rank});
      DataLoader loader(Numbers{8}, sampler, {.batch_size = 2});
      for (int e = 0; e <= epoch; ++e) {
        sampler.set_epoch(e);
        const auto mine = joined(batches_of(loader));
        if (e == epoch) both.insert(both.end(), mine.begin(), mine.end());
      }
    }
    EXPECT_THAT(sorted(both), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    orders.push_back(both);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(DataLoaderTest, SameEpochChosenTwiceIsTheSameOrder) {
  DistributedSampler sampler(50);
  DataLoader loader(Numbers{50}, sampler, {.batch_size = 8});
  sampler.set_epoch(3);
  const auto first = batches_of(loader);
  sampler.set_epoch(3);
  EXPECT_EQ(batches_of(loader), first);
}

// D2: without set_epoch, each pass is the next epoch.
TEST(DataLoaderTest, CountsEpochsByItself) {
  DistributedSampler sampler(22);
  DataLoader loader(Numbers{22}, sampler, {.batch_size = 4});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    DistributedSampler expected(22);
    expected.set_epoch(epoch);
    EXPECT_EQ(joined(batches_of(loader)), expected.indices());
    EXPECT_EQ(sampler.epoch(), epoch);
  }
}

// D3: evaluation counts each item once, by mask or by uneven shares.
TEST(DataLoaderTest, EvaluationIsExact) {
  for (const Remainder remainder : {Remainder::kPad, Remainder::kUneven}) {
    std::int64_t count = 0;
    std::int64_t hits = 0;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      DistributedSampler sampler(
          499, {.num_replicas = 4, .rank = rank, .shuffle = false, .remainder = remainder});
      DataLoader loader(Numbers{499}, sampler, {.batch_size = 62});
      for (const Batch& batch : loader) {
        EXPECT_EQ(batch.valid.sizes(), batch.target.sizes());
        count += batch.valid.sum().item<std::int64_t>();
        hits += (batch.target.eq(0) & batch.valid).sum().item<std::int64_t>();
      }
    }
    EXPECT_EQ(count, 499);
    EXPECT_EQ(hits, 1);
  }
}

// D5, D6: the number of batches, whatever the number of threads.
TEST(DataLoaderTest, CountsBatches) {
  struct Case {
    std::int64_t samples, batch;
    bool drop_last;
    std::size_t batches;
  };
  for (const int workers : {0, 2, 10}) {
    for (const Case& c :
         {Case{3, 5, true, 0}, Case{5, 2, true, 2}, Case{6, 2, true, 3}, Case{1000, 128, true, 7},
          Case{3, 5, false, 1}, Case{5, 2, false, 3}, Case{1000, 128, false, 8}}) {
      DataLoader loader(Numbers{c.samples},
                        {.batch_size = c.batch, .drop_last = c.drop_last, .num_workers = workers});
      EXPECT_EQ(loader.size(), static_cast<std::int64_t>(c.batches));
      EXPECT_THAT(batches_of(loader), SizeIs(c.batches));
    }
  }
}

// D7: batches after a stop equal those of an unbroken run, and the epochs go on.
TEST(DataLoaderTest, ResumesInMidEpoch) {
  for (const int workers : {0, 3}) {
    DistributedSampler sampler(100, {.seed = 9});
    DataLoader loader(Numbers{100}, sampler, {.batch_size = 7, .num_workers = workers});
    sampler.set_epoch(2);
    SamplerState saved;
    std::vector<Indices> rest;
    std::int64_t number = 0;
    for (const Batch& batch : loader) {
      if (++number == 5) saved = sampler.state();
      if (number > 5) rest.push_back(numbers_of(batch.target));
    }
    EXPECT_EQ(saved, (SamplerState{.seed = 9, .epoch = 2, .consumed = 35}));
    EXPECT_EQ(sampler.state(), (SamplerState{.seed = 9, .epoch = 3}));
    const auto following = batches_of(loader);

    DistributedSampler resumed(100);
    resumed.load_state(saved);
    DataLoader again(Numbers{100}, resumed, {.batch_size = 7, .num_workers = workers});
    EXPECT_EQ(batches_of(again), rest);
    EXPECT_EQ(batches_of(again), following);
  }
}

TEST(DataLoaderTest, DroppedLastBatchStillEndsTheEpoch) {
  for (const std::int64_t samples : {10, 3}) {
    DistributedSampler sampler(samples);
    DataLoader loader(Numbers{samples}, sampler, {.batch_size = 4, .drop_last = true});
    EXPECT_THAT(batches_of(loader), SizeIs(static_cast<std::size_t>(samples / 4)));
    EXPECT_EQ(sampler.state(), (SamplerState{.epoch = 1}));
  }
}

// D8: threads that overtake each other change nothing.
TEST(DataLoaderTest, OrderDoesNotDependOnThreads) {
  std::vector<Indices> expected;
  for (int repeat = 0; repeat < 10; ++repeat) {
    DistributedSampler sampler(120);
    DataLoader loader(Numbers{120, true}, sampler,
                      {.batch_size = 9, .num_workers = repeat == 0 ? 0 : 4});
    auto batches = batches_of(loader);
    const auto second = batches_of(loader);
    batches.insert(batches.end(), second.begin(), second.end());
    if (repeat == 0) expected = batches;
    EXPECT_EQ(batches, expected);
  }
}

// D9: leaving a pass early leaves no thread, and the next pass is whole.
TEST(DataLoaderTest, LeavingEarlyIsFine) {
  const auto threads = test::threads_of_process();
  DistributedSampler sampler(1000);
  DataLoader loader(Numbers{1000}, sampler, {.batch_size = 10, .num_workers = 2});
  for ([[maybe_unused]] const Batch& batch : loader) break;
  EXPECT_TRUE(test::threads_fall_to(threads));
  EXPECT_THAT(sorted(joined(batches_of(loader))), SizeIs(1000));
  EXPECT_TRUE(test::threads_fall_to(threads));
}

TEST(DataLoaderTest, NewPassEndsTheOneUnderWay) {
  DistributedSampler sampler(20);
  DataLoader loader(Numbers{20}, sampler, {.batch_size = 5, .num_workers = 2});
  auto old = loader.begin();
  ++old;
  auto current = loader.begin();
  ++old;
  EXPECT_TRUE(old == loader.end());
  EXPECT_FALSE(current == loader.end());
  EXPECT_EQ(sampler.state(), (SamplerState{.epoch = 1, .consumed = 5}));
}

TEST(DataLoaderTest, BatchesOutliveTheLoader) {
  std::vector<Batch> kept;
  {
    DataLoader loader(Numbers{6}, {.batch_size = 2, .num_workers = 1});
    for (const Batch& batch : loader) kept.push_back(batch);
  }
  EXPECT_THAT(numbers_of(kept[0].data), ElementsAre(0, 1));
  EXPECT_THAT(numbers_of(kept[2].data), ElementsAre(4, 5));
}

TEST(DataLoaderTest, ExceptionReachesTheCallerInItsTurn) {
  struct Broken : Numbers {
    Example get(std::int64_t index) const {
      if (index == 5) throw DataError("item 5 is broken");
      return Numbers::get(index);
    }
  };
  for (const int workers : {0, 3}) {
    DataLoader loader(Broken{{12}}, {.batch_size = 2, .num_workers = workers});
    std::vector<Indices> seen;
    const auto pass = [&] {
      for (const Batch& batch : loader) seen.push_back(numbers_of(batch.target));
    };
    EXPECT_THAT(test::error_of<DataError>(pass), HasSubstr("item 5 is broken"));
    EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  }
}

TEST(DataLoaderTest, DatasetMayReadWholeBatches) {
  struct Squares {
    std::int64_t size() const { return 6; }
    Example get_batch(std::span<const std::int64_t> indices) const {
      const at::Tensor numbers =
          at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()));
      return {numbers * numbers, numbers};
    }
  };
  DataLoader loader(Squares{}, {.batch_size = 4});
  std::vector<Indices> seen;
  for (const Batch& batch : loader) seen.push_back(numbers_of(batch.data));
  EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1, 4, 9), ElementsAre(16, 25)));
}

TEST(DataLoaderTest, WrongNumbersAreNamed) {
  const auto error = [](DataLoaderOptions options) {
    return test::error_of<UsageError>([&] { DataLoader(Numbers{4}, options); });
  };
  EXPECT_THAT(error({.batch_size = 0}),
              AllOf(HasSubstr("batch_size is 0"), HasSubstr("at least 1")));
  EXPECT_THAT(error({.batch_size = -3}), HasSubstr("batch_size is -3"));
  EXPECT_THAT(error({.num_workers = -1}), HasSubstr("num_workers is -1"));
  EXPECT_THAT(error({.prefetch_factor = 0}), HasSubstr("prefetch_factor is 0"));
  DistributedSampler other(5);
  EXPECT_THAT(test::error_of<UsageError>([&] { DataLoader(Numbers{4}, other); }),
              AllOf(HasSubstr("has 4 samples"), HasSubstr("made for 5")));
  EXPECT_THAT(test::error_of<UsageError>([] { DataLoader(Numbers{0}); }), HasSubstr("empty"));
}

}  // namespace lockstep
