#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "host/segment.h"

namespace lockstep::host {

/// What a member shows the others when it comes to a round.
struct Post {
  std::uint64_t digest = 0;  ///< of the call, which must be the same on all; 0: nothing to compare
  Place place = 0;           ///< of its data, where they lie in shared memory
};

enum class Arrival {
  kAll,      ///< every member has come
  kLate,     ///< the time is over
  kGone,     ///< a member that has not come never will: it has left
  kFailed,   ///< or it could not go on, and its own error says why
  kAborted,  ///< `abort` was called
};

/// Rounds to which all members of a group come: a barrier that carries a post a member. What a
/// member wrote before it came is seen by all after their `wait`.
///
/// A member can be one round ahead of another, never two: what is written in round n may be
/// overwritten from round n + 2 on, so two alternating buffers suffice.
///
/// `arrive` and `wait` by one thread at a time; `abort` and `gone` by any.
class Rounds {
 public:
  static std::size_t bytes_needed(int size);

  /// `seats` are shared by the members, of `bytes_needed(size)`, aligned to 128, and all zeros
  /// before the first of them comes; they outlive this. `crowded`: there are fewer cores than
  /// members, so that polling would keep the one waited for from running.
  Rounds(std::byte* seats, int rank, int size, bool crowded);

  int rank() const { return rank_; }
  int size() const { return size_; }

  void arrive(const Post& post) noexcept;

  /// Polls for a moment for every member to come to this member's round; kLate: not yet.
  Arrival poll() noexcept;

  /// Sleeps until then, or until `end`. May be repeated after kLate.
  Arrival wait(std::chrono::steady_clock::time_point end) noexcept;

  /// Sleeps until `there()`, which another member makes true before it calls `wake`. kGone when
  /// `sender` has gone without.
  template <class There>
  Arrival wait_for(int sender, There there, std::chrono::steady_clock::time_point end) noexcept {
    return sleep(
        [&] {
          if (there()) return Arrival::kAll;
          if (aborted_.load(std::memory_order_seq_cst)) return Arrival::kAborted;
          return gone_[static_cast<std::size_t>(sender)].load(std::memory_order_seq_cst)
                     ? Arrival::kGone
                     : Arrival::kLate;
        },
        end);
  }

  /// Wakes a member from its `wait_for` or `wait`, to look again.
  void wake(int rank) noexcept;

  /// Of the round that `wait` has completed.
  const Post& post_of(int rank) const;

  /// Members that have not come to this member's round.
  std::vector<int> missing() const;

  /// How many rounds the member has come to.
  std::uint64_t rounds_of(int rank) const;

  /// This member cannot go on: whoever waits for it, in whatever process, waits no longer.
  void fail() noexcept;

  /// Ends the wait under way and all later ones, in this process.
  void abort() noexcept;

  /// The member will come to no further round.
  void gone(int rank) noexcept;

 private:
  struct Seat;

  Seat& seat(int rank) const;
  Arrival look() noexcept;
  Arrival sleep(const std::function<Arrival()>& look,
                std::chrono::steady_clock::time_point end) noexcept;

  std::byte* const seats_;
  const int rank_;
  const int size_;
  const bool crowded_;
  std::uint64_t round_ = 0;
  int first_missing_ = 0;  ///< members before it have come to this round
  std::atomic<bool> aborted_{false};
  std::vector<std::atomic<bool>> gone_;
};

}  // namespace lockstep::host
