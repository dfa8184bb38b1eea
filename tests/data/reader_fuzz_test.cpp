#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "data/allocations.h"
#include "data/data_files.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using test::Bytes;

constexpr std::chrono::milliseconds kTime{700};

// One to four small wounds: a flipped bit, a byte of an edge value, a cut, a repeated or a removed
// stretch.
Bytes mutate(Bytes bytes, std::minstd_rand& random) {
  const auto below = [&](std::size_t limit) {
    return static_cast<std::ptrdiff_t>(random() % limit);
  };
  for (auto wounds = 1 + random() % 4; wounds > 0 && !bytes.empty(); --wounds) {
    const auto at = bytes.begin() +
                    below(random() % 2 ? std::min<std::size_t>(bytes.size(), 32) : bytes.size());
    const auto length = std::min<std::ptrdiff_t>(bytes.end() - at, 1 + below(40));
    const Bytes stretch(at, at + length);
    constexpr std::uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
    switch (random() % 5) {
      case 0:
        *at ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        *at = kEdges[random() % std::size(kEdges)];
        break;
      case 2:
        bytes.erase(at, bytes.end());
        break;
      case 3:
        bytes.insert(at, stretch.begin(), stretch.end());
        break;
      default:
        bytes.erase(at, at + length);
    }
  }
  return bytes;
}

// Runs `read` on mutants of the seeds until the time is over; anything but DataError fails the
// test.
template <class Read>
void fuzz(const std::vector<Bytes>& seeds, Read read) {
  std::minstd_rand random(20260101);
  test::largest_allocation();
  int refused = 0;
  int accepted = 0;
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (std::chrono::steady_clock::now() < end) {
    const std::size_t seed = random() % seeds.size();
    try {
      read(mutate(seeds[seed], random), seed);
      ++accepted;
    } catch (const DataError& error) {
      ++refused;
      ASSERT_NE(std::string(error.what()).find("mutant"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(accepted, refused);
  EXPECT_LT(test::largest_allocation(), std::size_t{1} << 20);
}

std::vector<Bytes> packed_seeds() {
  const Bytes real = test::read(test::mnist_folder() / "t10k-labels-idx1-ubyte.gz");
  Bytes members = test::gzip(test::idx({3, 28, 28}));
  const Bytes second = test::gzip(test::idx({500}));
  members.insert(members.end(), second.begin(), second.end());
  return {real, test::gzip(test::idx({2, 28, 28})), test::gzip({}), members};
}

}  // namespace

TEST(ReaderFuzzTest, GzipIsRefusedOrRight) {
  const std::vector<Bytes> seeds = packed_seeds();
  std::vector<SharedBytes> whole;
  for (const Bytes& seed : seeds) whole.push_back(gunzip(seed, "seed"));
  fuzz(seeds, [&](const Bytes& mutant, std::size_t seed) {
    const SharedBytes inflated = gunzip(mutant, "mutant");
    const auto out = inflated.view();
    // A cut between two members leaves a file that is right.
    const auto expected = whole[seed].view();
    ASSERT_LE(out.size(), expected.size());
    ASSERT_TRUE(std::equal(out.begin(), out.end(), expected.begin()));
  });
}

TEST(ReaderFuzzTest, IdxIsRefusedOrRight) {
  const std::vector<Bytes> seeds = {test::idx({2, 28, 28}), test::idx({1, 1, 1}),
                                    test::idx({0, 28, 28}), test::idx({40})};
  fuzz(seeds, [](const Bytes& mutant, std::size_t) {
    const IdxArray array = parse_idx(test::shared(mutant), "mutant", 3);
    ASSERT_EQ(array.values.size + 16, mutant.size());
    ASSERT_EQ(array.dims[0] * array.dims[1] * array.dims[2],
              static_cast<std::int64_t>(array.values.size));
  });
}

}  // namespace lockstep::data
