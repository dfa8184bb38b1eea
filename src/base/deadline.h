#pragma once
#include <algorithm>
#include <chrono>

namespace lockstep::base {

/// A point in time that a chain of waits shares: each wait gets what the ones before it left over.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(Clock::duration limit) { return Deadline(limit); }

  bool expired() const { return Clock::now() >= end_; }
  Clock::time_point time() const { return end_; }
  Clock::duration elapsed() const { return Clock::now() - begin_; }
  Clock::duration limit() const { return end_ - begin_; }

  /// Time left, never negative.
  std::chrono::milliseconds remaining() const {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()));
  }

  /// Time left in the form poll(2) takes.
  int poll_timeout() const {
    return static_cast<int>(std::min<long long>(remaining().count(), 1 << 30));
  }

 private:
  // A limit so long that the sum would overflow means "never" to whoever set it.
  explicit Deadline(Clock::duration limit)
      : begin_(Clock::now()),
        end_(limit > Clock::time_point::max() - begin_ ? Clock::time_point::max()
                                                       : begin_ + limit) {}

  Clock::time_point begin_;
  Clock::time_point end_;
};

}  // namespace lockstep::base
