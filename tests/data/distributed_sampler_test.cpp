#include "lockstep/distributed_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/log.h"
#include "data/data_files.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Indices = std::vector<std::int64_t>;

std::string hash_of(const Indices& indices) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int64_t index : indices) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ (static_cast<std::uint64_t>(index) >> shift & 0xff)) * 0x100000001b3;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

Indices head(const Indices& indices, std::size_t count) {
  return {indices.begin(),
          indices.begin() + static_cast<std::ptrdiff_t>(std::min(count, indices.size()))};
}

// What all ranks see, without padding, from `state` on (from the start by default).
std::vector<Indices> valid_by_rank(std::int64_t size, std::int64_t replicas, Remainder remainder,
                                   const SamplerState& state = {}) {
  std::vector<Indices> ranks;
  for (std::int64_t rank = 0; rank < replicas; ++rank) {
    DistributedSampler sampler(size,
                               {.num_replicas = replicas, .rank = rank, .remainder = remainder});
    sampler.load_state(state);
    ranks.push_back(head(sampler.indices(), static_cast<std::size_t>(sampler.valid_size())));
  }
  return ranks;
}

Indices sorted_union(const std::vector<Indices>& ranks) {
  Indices all;
  for (const Indices& indices : ranks) all.insert(all.end(), indices.begin(), indices.end());
  std::sort(all.begin(), all.end());
  return all;
}

Indices count_up(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Collects the log, so that what a test provokes on purpose is not printed.
class SamplerTest : public testing::Test {
 protected:
  SamplerTest() {
    base::set_log_sink([this](base::LogLevel, const std::string& line) { log_ += line; });
  }
  ~SamplerTest() override { base::set_log_sink({}); }

  std::string log_;
};

}  // namespace

TEST_F(SamplerTest, OrderEqualsPythons) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/data/golden/sampler.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GT(cases.size(), 200u);
  for (const auto& golden : cases) {
    for (std::size_t rank = 0; rank < golden["ranks"].size(); ++rank) {
      DistributedSampler sampler(golden["size"], {.num_replicas = golden["replicas"],
                                                  .rank = static_cast<std::int64_t>(rank),
                                                  .shuffle = golden["shuffle"],
                                                  .seed = golden["seed"],
                                                  .drop_last = golden["drop_last"]});
      sampler.set_epoch(golden["epoch"]);
      const Indices indices = sampler.indices();
      const auto& expected = golden["ranks"][rank];
      ASSERT_EQ(indices.size(), expected[0]) << golden;
      ASSERT_EQ(sampler.size(), expected[0]) << golden;
      ASSERT_EQ(head(indices, 3), expected[1].get<Indices>()) << golden;
      ASSERT_EQ(hash_of(indices), expected[2]) << golden;
    }
  }
}

TEST_F(SamplerTest, EveryRemainderDealsEachSampleOnce) {
  for (const std::int64_t size : {1, 3, 8, 22, 499}) {
    for (const std::int64_t replicas : {1, 2, 3, 4, 8}) {
      EXPECT_EQ(sorted_union(valid_by_rank(size, replicas, Remainder::kPad)), count_up(size));
      EXPECT_EQ(sorted_union(valid_by_rank(size, replicas, Remainder::kUneven)), count_up(size));
      const Indices kept = sorted_union(valid_by_rank(size, replicas, Remainder::kDrop));
      EXPECT_THAT(kept, SizeIs(static_cast<std::size_t>(size / replicas * replicas)));
      EXPECT_THAT(std::set(kept.begin(), kept.end()), SizeIs(kept.size()));
    }
  }
}

TEST_F(SamplerTest, PaddingComesLastAndIsCounted) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const DistributedSampler sampler(499, {.num_replicas = 4, .rank = rank, .shuffle = false});
    EXPECT_EQ(sampler.size(), 125);
    EXPECT_EQ(sampler.valid_size(), rank < 3 ? 125 : 124);
  }
}

TEST_F(SamplerTest, UnevenRanksDifferByOneAtMost) {
  const auto ranks = valid_by_rank(499, 4, Remainder::kUneven);
  EXPECT_THAT(ranks[0], SizeIs(125));
  EXPECT_THAT(ranks[3], SizeIs(124));
}

TEST_F(SamplerTest, FewerSamplesThanRanks) {
  const DistributedSampler padded(2, {.num_replicas = 5, .rank = 4, .shuffle = false});
  EXPECT_EQ(padded.indices(), Indices{0});
  EXPECT_EQ(padded.valid_size(), 0);
  EXPECT_THAT(DistributedSampler(2, {.num_replicas = 5, .rank = 1, .drop_last = true}).indices(),
              IsEmpty());
  EXPECT_THAT(DistributedSampler(2, {.num_replicas = 5, .rank = 4, .remainder = Remainder::kUneven})
                  .indices(),
              IsEmpty());
  EXPECT_THAT(log_, HasSubstr("drop_last leaves no samples: the dataset has 2 for 5 ranks"));
}

TEST_F(SamplerTest, WrongArgumentsAreNamed) {
  const auto error = [](std::int64_t size, DistributedSamplerOptions options) {
    return test::error_of<UsageError>([&] { DistributedSampler(size, options); });
  };
  EXPECT_THAT(error(8, {.num_replicas = 0}),
              AllOf(HasSubstr("num_replicas is 0"), Not(HasSubstr("rank is"))));
  EXPECT_THAT(error(8, {.num_replicas = -1}), HasSubstr("num_replicas is -1"));
  EXPECT_THAT(error(8, {.num_replicas = 2, .rank = -1}),
              AllOf(HasSubstr("rank is -1"), HasSubstr("0 to 1")));
  EXPECT_THAT(error(8, {.num_replicas = 2, .rank = 2}),
              AllOf(HasSubstr("rank is 2"), HasSubstr("0 to 1")));
  EXPECT_THAT(error(0, {}), HasSubstr("the dataset is empty"));
  EXPECT_THAT(error(-4, {}), HasSubstr("dataset_size is -4"));
  EXPECT_THAT(error(8, {.drop_last = true, .remainder = Remainder::kUneven}),
              HasSubstr("drop_last"));
  EXPECT_THAT(test::error_of<UsageError>([] { DistributedSampler(8).set_epoch(-1); }),
              HasSubstr("epoch is -1"));
}

TEST(SamplerStateTest, ResumesOnAnyNumberOfRanks) {
  constexpr std::int64_t kSize = 103;
  for (const std::int64_t before : {1, 2, 3, 4}) {
    for (const std::int64_t after : {1, 2, 3, 5}) {
      constexpr std::int64_t kTaken = 7;
      Indices seen;
      SamplerState state;
      for (std::int64_t rank = 0; rank < before; ++rank) {
        DistributedSampler sampler(kSize, {.num_replicas = before, .rank = rank});
        sampler.start_pass();
        const Indices first = head(sampler.indices(), kTaken);
        seen.insert(seen.end(), first.begin(), first.end());
        sampler.advance(kTaken);
        state = sampler.state();
        EXPECT_EQ(state, (SamplerState{.consumed = kTaken * before}));
      }
      for (const Remainder remainder : {Remainder::kPad, Remainder::kUneven}) {
        auto ranks = valid_by_rank(kSize, after, remainder, state);
        ranks.push_back(seen);
        EXPECT_EQ(sorted_union(ranks), count_up(kSize)) << before << " to " << after;
      }
    }
  }
}

TEST(SamplerStateTest, UnbrokenAndResumedRanksSeeTheSame) {
  for (const Remainder remainder : {Remainder::kPad, Remainder::kDrop, Remainder::kUneven}) {
    const DistributedSamplerOptions options{
        .num_replicas = 3, .rank = 2, .seed = 5, .remainder = remainder};
    DistributedSampler unbroken(100, options);
    unbroken.set_epoch(4);
    unbroken.start_pass();
    unbroken.advance(20);
    DistributedSampler resumed(100, options);
    resumed.load_state(unbroken.state());
    const Indices whole = unbroken.indices();
    EXPECT_EQ(resumed.indices(), Indices(whole.begin() + 20, whole.end()));
  }
}

TEST(SamplerStateTest, WholePassIsTheStartOfTheNext) {
  DistributedSampler sampler(10, {.num_replicas = 4, .rank = 1});
  sampler.start_pass();
  sampler.advance(3);
  EXPECT_EQ(sampler.state(), (SamplerState{.epoch = 1}));
  EXPECT_THAT(test::error_of<UsageError>([&] { sampler.advance(1); }),
              HasSubstr("0 samples are left"));
}

TEST(SamplerStateTest, ChoosingTheLoadedEpochKeepsItsPosition) {
  DistributedSampler sampler(10);
  sampler.load_state({.seed = 3, .epoch = 2, .consumed = 6});
  sampler.set_epoch(2);
  EXPECT_EQ(sampler.size(), 4);
  EXPECT_EQ(sampler.state(), (SamplerState{.seed = 3, .epoch = 2, .consumed = 6}));
  sampler.set_epoch(3);
  EXPECT_EQ(sampler.size(), 10);
}

TEST(SamplerStateTest, StateOfAnotherDatasetIsRefused) {
  DistributedSampler sampler(10);
  EXPECT_THAT(test::error_of<UsageError>([&] { sampler.load_state({.consumed = 11}); }),
              AllOf(HasSubstr("11 samples consumed"), HasSubstr("has 10")));
  EXPECT_NE(test::error_of<UsageError>([&] { sampler.load_state({.epoch = -1}); }), "");
}

}  // namespace lockstep
