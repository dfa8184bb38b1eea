#include "host/recorder.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <sstream>

namespace lockstep::host {
namespace {

std::int64_t real_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// A call in words that can be read while they are written; the number tells whether they were.
struct Recorder::Entry {
  static constexpr std::size_t kWords = sizeof(CallRecord) / sizeof(std::uint64_t);
  static_assert(sizeof(CallRecord) % sizeof(std::uint64_t) == 0 &&
                std::is_trivially_copyable_v<CallRecord>);

  std::atomic<std::uint64_t> number;  ///< 0 while it is being written
  std::atomic<std::int64_t> end_ns;
  std::atomic<CallRecord::State> state;
  std::atomic<std::uint64_t> words[kWords];

  void store(const CallRecord& call) noexcept {
    std::uint64_t plain[kWords];
    std::memcpy(plain, &call, sizeof(call));
    for (std::size_t i = 0; i < kWords; ++i) words[i].store(plain[i], std::memory_order_relaxed);
    end_ns.store(0, std::memory_order_relaxed);
    state.store(CallRecord::State::kWaiting, std::memory_order_relaxed);
  }

  CallRecord load() const noexcept {
    std::uint64_t plain[kWords];
    for (std::size_t i = 0; i < kWords; ++i) plain[i] = words[i].load(std::memory_order_relaxed);
    CallRecord call;
    std::memcpy(&call, plain, sizeof(call));
    call.end_ns = end_ns.load(std::memory_order_relaxed);
    call.state = state.load(std::memory_order_relaxed);
    return call;
  }
};

struct Recorder::Ring {
  std::atomic<std::uint64_t> begun;
  Entry entries[kCalls];
};

std::uint64_t CallRecord::digest() const {
  static_assert(offsetof(CallRecord, begin_ns) % sizeof(std::uint64_t) == 0);
  const auto* const bytes = reinterpret_cast<const char*>(this);
  std::uint64_t digest = 0x9e3779b97f4a7c15;
  for (std::size_t at = 0; at < offsetof(CallRecord, begin_ns); at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, bytes + at, sizeof(word));
    // Multiplied in 128 bits and folded: each bit of the word reaches each of the digest.
    const auto product = static_cast<unsigned __int128>(digest ^ word) * 0xd1342543de82ef95;
    digest = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ at;
  }
  return digest | 1;
}

std::string CallRecord::text() const {
  std::ostringstream text;
  text << op << '(';
  const char* separator = "";
  const auto next = [&]() -> std::ostream& {
    text << separator;
    separator = ", ";
    return text;
  };
  if (reduce_op[0] != '\0') next() << reduce_op;
  if (dtype[0] != '\0') {
    next() << dtype << '[';
    for (int dim = 0; dim < std::min<int>(dim_count, std::size(dims)); ++dim)
      text << (dim == 0 ? "" : ", ") << dims[dim];
    text << ']';
  }
  if (root >= 0) next() << "rank " << root;
  if (tag[0] != '\0') next() << '"' << tag << '"';
  text << ") at " << file << ':' << line;
  return std::move(text).str();
}

std::size_t Recorder::bytes_needed() { return sizeof(Ring); }

Recorder::Recorder(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}

Recorder::Ring& Recorder::ring() const { return *reinterpret_cast<Ring*>(memory_.get()); }

std::uint64_t Recorder::begin(CallRecord call) noexcept {
  call.begin_ns = real_time_ns();
  const std::uint64_t number = ring().begun.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& entry = ring().entries[number % kCalls];
  entry.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.store(call);
  entry.number.store(number, std::memory_order_release);
  return number;
}

void Recorder::finish(std::uint64_t number, CallRecord::State state) noexcept {
  Entry& entry = ring().entries[number % kCalls];
  if (entry.number.load(std::memory_order_relaxed) != number) return;  // overwritten since
  entry.end_ns.store(real_time_ns(), std::memory_order_relaxed);
  entry.state.store(state, std::memory_order_relaxed);
}

std::vector<CallRecord> Recorder::calls() const {
  std::vector<CallRecord> found;
  const std::uint64_t last = ring().begun.load(std::memory_order_acquire);
  for (std::uint64_t number = last > kCalls ? last - kCalls + 1 : 1; number <= last; ++number) {
    const Entry& entry = ring().entries[number % kCalls];
    if (entry.number.load(std::memory_order_acquire) != number) continue;
    const CallRecord call = entry.load();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.number.load(std::memory_order_relaxed) == number) found.push_back(call);
  }
  return found;
}

std::optional<CallRecord> Recorder::find(const std::string& group, std::uint64_t sequence) const {
  CallRecord wanted;
  set_text(wanted.group, group);
  const std::vector<CallRecord> all = calls();
  const auto at = std::find_if(all.rbegin(), all.rend(), [&](const CallRecord& call) {
    return call.sequence == sequence && std::string_view(call.group) == wanted.group;
  });
  if (at == all.rend()) return std::nullopt;
  return *at;
}

}  // namespace lockstep::host
