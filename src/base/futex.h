#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::base {

/// Sleeps while `word`, which may lie in memory shared between processes, equals `expected`, until
/// a wake, `end`, or for no reason: callers look again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point end) noexcept;

/// Wakes all who sleep on `word`, in every process.
void futex_wake(const std::atomic<std::uint32_t>& word) noexcept;

/// Tells the processor that this thread polls.
inline void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace lockstep::base
