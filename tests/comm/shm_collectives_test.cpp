#include <gmock/gmock.h>

#include <numeric>

#include "comm/backends/shm/collectives.h"
#include "host/members.h"

namespace lockstep::comm::shm {
namespace {

using host::test::Member;
using host::test::on_members;
using host::test::soon;

/// Distinct by rank and index; sums over ranks are exact.
float value(int rank, std::size_t index) {
  return static_cast<float>(static_cast<int>(index * 7 % 1001) + rank * 3);
}

/// Numbers in the arena or on the heap, filled with this rank's values.
struct Numbers {
  Numbers(Member& member, std::size_t count, bool in_arena) {
    const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
    memory = in_arena ? host::allocate_shared(member.arena, bytes)
                      : std::shared_ptr<std::byte>(
                            reinterpret_cast<std::byte*>(new float[bytes / sizeof(float)]),
                            [](std::byte* data) { delete[] reinterpret_cast<float*>(data); });
    data = reinterpret_cast<float*>(memory.get());
    for (std::size_t i = 0; i < count; ++i) data[i] = value(member.rank, i);
  }
  std::shared_ptr<std::byte> memory;
  float* data;
};

const std::size_t kCounts[] = {0, 1, 7, 1023, 4096, 100'003, 400'000};

}  // namespace

class ShmCollectivesTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, ShmCollectivesTest, testing::Values(2, 3, 4, 7));

TEST_P(ShmCollectivesTest, AllReduceAndReduce) {
  on_members(GetParam(), [](Member& member) {
    Collectives collectives(member.turns);
    std::uint64_t digest = 0;
    for (const std::size_t count : kCounts) {
      // In place on all, staged on all, and some of each.
      for (const int shared : {0, 1, member.size}) {
        const float ranks = static_cast<float>(member.size * (member.size - 1) / 2);
        Numbers sum(member, count, member.rank < shared);
        member.turns->begin(++digest, soon());
        collectives.all_reduce(sum.data, count, Dtype::kFloat32, Op::kSum);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(sum.data[i], value(0, i) * static_cast<float>(member.size) + 3 * ranks) << i;

        const int root = member.size - 1;
        Numbers mean(member, count, member.rank < shared);
        member.turns->begin(++digest, soon());
        collectives.reduce(mean.data, count, Dtype::kFloat32, Op::kAvg, root);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(mean.data[i],
                    member.rank == root
                        ? (value(0, i) * static_cast<float>(member.size) + 3 * ranks) /
                              static_cast<float>(member.size)
                        : value(member.rank, i))
              << i;
      }
    }
  });
}

TEST_P(ShmCollectivesTest, BroadcastAndGathers) {
  on_members(GetParam(), [](Member& member) {
    Collectives collectives(member.turns);
    const auto size = static_cast<std::size_t>(member.size);
    const int root = 1;
    std::uint64_t digest = 0;
    for (const std::size_t count : kCounts) {
      for (const int shared : {0, 2, member.size}) {
        const bool in_arena = member.rank < shared;
        Numbers text(member, count, in_arena);
        member.turns->begin(++digest, soon());
        collectives.broadcast(text.data, count * 4, root);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(text.data[i], value(root, i));

        const Numbers mine(member, count, in_arena);
        Numbers all(member, count * size, false);
        member.turns->begin(++digest, soon());
        collectives.all_gather(all.data, mine.data, count * 4);
        for (std::size_t rank = 0; rank < size; ++rank)
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(all.data[rank * count + i], value(static_cast<int>(rank), i));

        std::vector<std::vector<float>> gathered;
        std::vector<void*> targets;
        if (member.rank == root) gathered.assign(size, std::vector<float>(count));
        for (auto& part : gathered) targets.push_back(part.data());
        member.turns->begin(++digest, soon());
        collectives.gather(targets, mine.data, count * 4, root);
        for (std::size_t rank = 0; rank < gathered.size(); ++rank)
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(gathered[rank][i], value(static_cast<int>(rank), i));
      }
    }
  });
}

TEST_P(ShmCollectivesTest, ScattersAndExchanges) {
  on_members(GetParam(), [](Member& member) {
    Collectives collectives(member.turns);
    const auto size = static_cast<std::size_t>(member.size);
    const auto self = static_cast<std::size_t>(member.rank);
    const float ranks = static_cast<float>(member.size * (member.size - 1) / 2);
    std::uint64_t digest = 0;
    for (const std::size_t count : kCounts) {
      for (const int shared : {0, 1, member.size}) {
        const Numbers parts(member, count * size, member.rank < shared);
        Numbers part(member, count, false);
        member.turns->begin(++digest, soon());
        collectives.reduce_scatter(part.data, parts.data, count, Dtype::kFloat32, Op::kSum);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(part.data[i],
                    value(0, self * count + i) * static_cast<float>(member.size) + 3 * ranks);

        std::vector<const void*> dealt;
        for (std::size_t rank = 0; self == 0 && rank < size; ++rank)
          dealt.push_back(parts.data + rank * count);
        member.turns->begin(++digest, soon());
        collectives.scatter(part.data, dealt, count * 4, 0);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(part.data[i], value(0, self * count + i));
      }
      // Rank r sends count * (r + 1) numbers to rank 0, count to each of the others.
      std::vector<std::size_t> sends(size, count * 4), expects(size, count * 4);
      sends[0] = count * (self + 1) * 4;
      if (self == 0)
        for (std::size_t rank = 0; rank < size; ++rank) expects[rank] = count * (rank + 1) * 4;
      const Numbers from(member, std::accumulate(sends.begin(), sends.end(), std::size_t{0}) / 4,
                         false);
      std::vector<float> to(std::accumulate(expects.begin(), expects.end(), std::size_t{0}) / 4);
      member.turns->begin(++digest, soon());
      collectives.all_to_all(to.data(), from.data, expects, sends);
      std::size_t position = 0;
      for (std::size_t rank = 0; rank < size; ++rank) {
        const std::size_t before = self == 0 ? 0 : count * (rank + 1 + self - 1);
        for (std::size_t i = 0; i < expects[rank] / 4; ++i)
          ASSERT_EQ(to[position++], value(static_cast<int>(rank), before + i));
      }
    }
  });
}

TEST(ShmCollectivesErrorTest, UnlikeExchangesAreAMismatchOnEveryRank) {
  std::atomic<int> refused = 0;
  on_members(3, [&](Member& member) {
    Collectives collectives(member.turns);
    std::vector<std::size_t> bytes(3, 4), wrong = bytes;
    if (member.rank == 2) wrong[1] = 8;
    std::byte from[16] = {}, to[16] = {};
    member.turns->begin(1, soon());
    try {
      collectives.all_to_all(to, from, bytes, wrong);
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 2 sends 8 bytes to rank 1"));
      ++refused;
    }
    member.turns->begin(2, soon());
    collectives.all_to_all(to, from, bytes, bytes);
  });
  EXPECT_EQ(refused, 3);
}

TEST(ShmCollectivesErrorTest, UnlikeCallsMoveNothingAndTheNextCallWorks) {
  std::atomic<int> refused = 0;
  on_members(2, [&](Member& member) {
    Collectives collectives(member.turns);
    std::vector<float> data(200'000, 1.0f);
    member.turns->begin(member.rank == 0 ? 11 : 12, soon());
    try {
      if (member.rank == 0)
        collectives.all_reduce(data.data(), data.size(), Dtype::kFloat32, Op::kSum);
      else
        collectives.broadcast(data.data(), 8, 0);
    } catch (const host::Disagreement&) {
      ++refused;
    }
    EXPECT_EQ(data, std::vector<float>(200'000, 1.0f));
    member.turns->begin(13, soon());
    collectives.all_reduce(data.data(), data.size(), Dtype::kFloat32, Op::kSum);
    EXPECT_EQ(data, std::vector<float>(200'000, 2.0f));
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace lockstep::comm::shm
