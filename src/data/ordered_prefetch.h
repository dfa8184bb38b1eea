#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/log.h"
#include "base/thread_name.h"

namespace lockstep::data {

/// Results of produce(0), produce(1), ... produce(count - 1), made ahead of need by several threads
/// and handed out in that order, whichever thread is faster. `produce` runs on several threads at
/// once.
///
/// The threads belong to this object and wait while `ahead` results lie unclaimed; the destructor
/// stops them after the calls under way. `next` is for one thread.
template <class Result>
class OrderedPrefetch {
 public:
  OrderedPrefetch(std::int64_t count, int threads, std::int64_t ahead,
                  std::function<Result(std::int64_t)> produce)
      : count_(count),
        produce_(std::move(produce)),
        slots_(static_cast<std::size_t>(std::max<std::int64_t>(ahead, 1))) {
    const auto useful = std::min<std::int64_t>(threads, count);
    for (std::int64_t i = 0; i < useful; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  ~OrderedPrefetch() {
    for (auto& thread : threads_) thread.request_stop();
  }

  OrderedPrefetch(const OrderedPrefetch&) = delete;
  OrderedPrefetch& operator=(const OrderedPrefetch&) = delete;

  /// The next result, or what `produce` threw for it. At most `count` calls. A result that takes
  /// long is no error: a line in the log says every 10 s what is waited for.
  Result next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(delivered_);
    for (int waits = 1; !made_.wait_for(lock, kPatience, [&] { return slot.filled(); }); ++waits) {
      base::log(base::LogLevel::kWarning,
                base::concat("DataLoader: batch ", delivered_, " has been loading for ",
                             waits * kPatience.count(), " s"));
    }
    const Slot taken = std::exchange(slot, Slot{});
    ++delivered_;
    lock.unlock();
    room_.notify_all();
    if (taken.failure) std::rethrow_exception(taken.failure);
    return *taken.result;
  }

 private:
  static constexpr std::chrono::seconds kPatience{10};

  struct Slot {
    std::optional<Result> result;
    std::exception_ptr failure;
    bool filled() const { return result.has_value() || failure; }
  };

  Slot& slot_of(std::int64_t index) {
    return slots_[static_cast<std::size_t>(index) % slots_.size()];
  }

  void work(const std::stop_token& stop) {
    base::name_this_thread("lockstep-data");
    std::unique_lock lock(mutex_);
    while (claimed_ < count_) {
      const auto window = static_cast<std::int64_t>(slots_.size());
      if (!room_.wait(lock, stop,
                      [&] { return claimed_ >= count_ || claimed_ < delivered_ + window; }))
        return;
      if (claimed_ >= count_) return;
      const std::int64_t index = claimed_++;
      lock.unlock();
      Slot made = make(index);
      lock.lock();
      slot_of(index) = std::move(made);
      made_.notify_one();
      if (stop.stop_requested()) return;
    }
  }

  Slot make(std::int64_t index) const {
    try {
      return {produce_(index), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  const std::int64_t count_;
  const std::function<Result(std::int64_t)> produce_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable_any room_;
  std::vector<Slot> slots_;
  std::int64_t claimed_ = 0;
  std::int64_t delivered_ = 0;
  std::vector<std::jthread> threads_;  // last: joined before what they use is gone
};

}  // namespace lockstep::data
