#include "data/ordered_prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "data/threads.h"

namespace lockstep::data {
namespace {

// Yields a random number of times, so that threads finish in any order.
void dawdle(std::int64_t seed) {
  std::minstd_rand random(static_cast<unsigned>(seed) * 7919 + 1);
  for (auto left = random() % 50; left > 0; --left) std::this_thread::yield();
}

}  // namespace

TEST(OrderedPrefetchTest, KeepsTheOrderWhateverTheThreads) {
  for (const int threads : {1, 2, 7}) {
    OrderedPrefetch<std::int64_t> squares(500, threads, 5, [](std::int64_t i) {
      dawdle(i);
      return i * i;
    });
    for (std::int64_t i = 0; i < 500; ++i) ASSERT_EQ(squares.next(), i * i);
  }
}

TEST(OrderedPrefetchTest, NeverGoesFurtherAheadThanToldTo) {
  constexpr std::int64_t kAhead = 3;
  std::atomic<std::int64_t> taken = 0;
  std::atomic<bool> exceeded = false;
  OrderedPrefetch<std::int64_t> numbers(300, 2, kAhead, [&](std::int64_t i) {
    // `taken` is counted up only after `next` returns: one more may be under way.
    if (i >= taken + 1 + kAhead) exceeded = true;
    return i;
  });
  for (; taken < 300; ++taken) numbers.next();
  EXPECT_FALSE(exceeded);
}

TEST(OrderedPrefetchTest, ExceptionComesInItsTurn) {
  OrderedPrefetch<std::int64_t> numbers(10, 3, 6, [](std::int64_t i) {
    if (i == 4) throw std::out_of_range("four");
    return i;
  });
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(numbers.next(), i);
  EXPECT_THROW(numbers.next(), std::out_of_range);
  EXPECT_EQ(numbers.next(), 5);
}

TEST(OrderedPrefetchTest, AbandoningItLeavesNoThread) {
  const auto before = test::threads_of_process();
  for (int i = 0; i < 50; ++i) {
    OrderedPrefetch<std::int64_t> numbers(1000, 4, 8, [](std::int64_t n) { return n; });
    numbers.next();
  }
  EXPECT_TRUE(test::threads_fall_to(before));
}

TEST(OrderedPrefetchTest, NothingToMakeNeedsNoThread) {
  const auto before = test::threads_of_process();
  const OrderedPrefetch<std::int64_t> none(0, 4, 8, [](std::int64_t n) { return n; });
  EXPECT_TRUE(test::threads_fall_to(before));
}

TEST(OrderedPrefetchTest, ThreadsCarryTheirName) {
  OrderedPrefetch<std::string> names(1, 1, 1, [](std::int64_t) {
    char name[16] = {};
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    return std::string(name);
  });
  EXPECT_EQ(names.next(), "lockstep-data");
}

}  // namespace lockstep::data
