#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace lockstep::base {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == 4);

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point end) noexcept {
  using std::chrono::nanoseconds;
  const auto since_boot = std::chrono::duration_cast<nanoseconds>(end.time_since_epoch()).count();
  timespec until{};
  until.tv_sec = static_cast<time_t>(since_boot / 1'000'000'000);
  until.tv_nsec = static_cast<long>(since_boot % 1'000'000'000);
  // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, which steady_clock is.
  ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT_BITSET, expected,
            &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE, 1 << 30, nullptr,
            nullptr, 0);
}

}  // namespace lockstep::base
