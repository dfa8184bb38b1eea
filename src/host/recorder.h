#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::host {

/// One call as a rank made it. Fixed size and without pointers: other processes read it.
struct CallRecord {
  enum class State : std::uint8_t { kWaiting, kDone, kFailed };

  // What must be equal on all ranks: the digest is of these.
  std::uint64_t sequence = 0;   ///< within its group
  std::int64_t dims[5] = {};    ///< of the tensor; the last is the product of all that remain
  std::int32_t dim_count = -1;  ///< -1: a call without a tensor, or with one of any shape
  std::int32_t root = -1;       ///< root or peer; -1: none
  char op[16] = {};
  char reduce_op[8] = {};
  char dtype[16] = {};
  char tag[40] = {};

  // What may differ.
  std::int64_t begin_ns = 0;  ///< of the real-time clock
  std::int64_t end_ns = 0;    ///< 0: not yet
  char group[24] = {};
  char file[48] = {};  ///< the end of the path
  std::uint32_t line = 0;
  State state = State::kWaiting;
  char padding[3] = {};

  /// Equal calls have equal digests; unequal ones do not, but by a chance of 2^-64. Never 0.
  std::uint64_t digest() const;

  /// "all_reduce(sum, float32[256, 10], "bucket 0") at train.cpp:30".
  std::string text() const;
};

/// Copies `text`, or its end where it is too long, and ends it with a zero.
template <std::size_t Size>
void set_text(char (&field)[Size], std::string_view text) {
  if (text.size() >= Size) text.remove_prefix(text.size() - (Size - 1));
  field[text.copy(field, Size - 1)] = '\0';
}

/// The shape of the call's tensor.
template <class Sizes>
void set_dims(CallRecord& call, const Sizes& sizes) {
  constexpr std::size_t kLast = std::size(CallRecord{}.dims) - 1;
  call.dim_count = static_cast<std::int32_t>(sizes.size());
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (dim <= kLast)
      call.dims[dim] = sizes[dim];
    else
      call.dims[kLast] *= sizes[dim];
  }
}

/// The last calls of one rank: a flight recorder. Written by that rank's threads; read by the other
/// ranks of its host, also when it hangs or is dead.
class Recorder {
 public:
  static constexpr int kCalls = 128;

  static std::size_t bytes_needed();

  /// `memory` has `bytes_needed()` bytes, all zeros before the first use.
  explicit Recorder(std::shared_ptr<std::byte> memory);

  /// Returns a number by which `finish` finds the call again.
  std::uint64_t begin(CallRecord call) noexcept;
  void finish(std::uint64_t number, CallRecord::State state) noexcept;

  /// Oldest first. A call that is being written at this moment is left out.
  std::vector<CallRecord> calls() const;

  /// The call with this number within its group, when it is still there.
  std::optional<CallRecord> find(const std::string& group, std::uint64_t sequence) const;

 private:
  struct Entry;
  struct Ring;

  Ring& ring() const;

  std::shared_ptr<std::byte> memory_;
};

}  // namespace lockstep::host
