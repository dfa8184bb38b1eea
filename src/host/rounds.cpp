#include "host/rounds.h"

#include <thread>

#include "base/futex.h"

namespace lockstep::host {
namespace {

using Clock = std::chrono::steady_clock;

// About 50 us: longer than a peer takes for one chunk, much shorter than a scheduler's slice.
constexpr int kPolls = 1000;
constexpr int kYields = 8;

}  // namespace

/// What a member shows on one cache line, and how it is woken on another.
struct Rounds::Seat {
  alignas(64) std::atomic<std::uint64_t> round;
  Post posts[2];  ///< by the round's parity
  alignas(64) std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> asleep;  ///< how many of its threads
  std::atomic<std::uint32_t> failed;
};

std::size_t Rounds::bytes_needed(int size) {
  static_assert(sizeof(Seat) == 128);
  return static_cast<std::size_t>(size) * sizeof(Seat);
}

Rounds::Rounds(std::byte* seats, int rank, int size, bool crowded)
    : seats_(seats),
      rank_(rank),
      size_(size),
      crowded_(crowded),
      gone_(static_cast<std::size_t>(size)) {}

Rounds::Seat& Rounds::seat(int rank) const { return reinterpret_cast<Seat*>(seats_)[rank]; }

void Rounds::arrive(const Post& post) noexcept {
  ++round_;
  first_missing_ = 0;
  Seat& mine = seat(rank_);
  mine.posts[round_ & 1] = post;
  // Ordered with the look at `asleep`: whoever lies down after it sees this round.
  mine.round.store(round_, std::memory_order_seq_cst);
  for (int other = 0; other < size_; ++other)
    if (other != rank_) wake(other);
}

Arrival Rounds::look() noexcept {
  while (first_missing_ < size_ &&
         seat(first_missing_).round.load(std::memory_order_seq_cst) >= round_)
    ++first_missing_;
  if (first_missing_ == size_) return Arrival::kAll;
  if (aborted_.load(std::memory_order_seq_cst)) return Arrival::kAborted;
  for (int other = first_missing_; other < size_; ++other) {
    const bool failed = seat(other).failed.load(std::memory_order_seq_cst) != 0;
    const bool gone = gone_[static_cast<std::size_t>(other)].load(std::memory_order_seq_cst);
    if ((!failed && !gone) || seat(other).round.load(std::memory_order_seq_cst) >= round_) continue;
    return failed ? Arrival::kFailed : Arrival::kGone;
  }
  return Arrival::kLate;
}

Arrival Rounds::poll() noexcept {
  const int polls = crowded_ ? kYields : kPolls;
  for (int poll = 0; poll < polls; ++poll) {
    if (const Arrival arrival = look(); arrival != Arrival::kLate) return arrival;
    if (crowded_)
      std::this_thread::yield();
    else
      base::pause_briefly();
  }
  return Arrival::kLate;
}

Arrival Rounds::wait(Clock::time_point end) noexcept {
  return sleep([this] { return look(); }, end);
}

Arrival Rounds::sleep(const std::function<Arrival()>& look, Clock::time_point end) noexcept {
  Seat& mine = seat(rank_);
  mine.asleep.fetch_add(1, std::memory_order_seq_cst);
  Arrival arrival;
  while (true) {
    const std::uint32_t rings = mine.rings.load(std::memory_order_seq_cst);
    arrival = look();
    if (arrival != Arrival::kLate || Clock::now() >= end) break;
    base::futex_wait(mine.rings, rings, end);
  }
  mine.asleep.fetch_sub(1, std::memory_order_relaxed);
  return arrival;
}

void Rounds::wake(int rank) noexcept {
  Seat& theirs = seat(rank);
  if (theirs.asleep.load(std::memory_order_seq_cst) == 0) return;
  theirs.rings.fetch_add(1, std::memory_order_seq_cst);
  base::futex_wake(theirs.rings);
}

const Post& Rounds::post_of(int rank) const { return seat(rank).posts[round_ & 1]; }

std::vector<int> Rounds::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other)
    if (rounds_of(other) < round_) ranks.push_back(other);
  return ranks;
}

std::uint64_t Rounds::rounds_of(int rank) const {
  return seat(rank).round.load(std::memory_order_acquire);
}

void Rounds::fail() noexcept {
  seat(rank_).failed.store(1, std::memory_order_seq_cst);
  for (int other = 0; other < size_; ++other)
    if (other != rank_) wake(other);
}

void Rounds::abort() noexcept {
  aborted_.store(true, std::memory_order_seq_cst);
  wake(rank_);
}

void Rounds::gone(int rank) noexcept {
  gone_[static_cast<std::size_t>(rank)].store(true, std::memory_order_seq_cst);
  wake(rank_);
}

}  // namespace lockstep::host
