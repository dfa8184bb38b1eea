#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {

/// Walks over bytes in memory. A step past the end throws CheckpointError that names `what` and the
/// place.
class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes), what_(what) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::size_t count) {
    if (count > remaining()) {
      throw CheckpointError(base::concat(what_, " ends at byte ", bytes_.size(), " where ", count,
                                         " more are announced at byte ", position_));
    }
    position_ += count;
    return bytes_.subspan(position_ - count, count);
  }

  std::string_view text(std::size_t length) {
    const auto bytes = take(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// Up to the next line feed, which is passed over.
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_,
                                remaining());
    const auto length = rest.find('\n');
    if (length == std::string_view::npos) return text(remaining() + 1);
    position_ += length + 1;
    return rest.substr(0, length);
  }

  template <std::unsigned_integral T>
  T little_endian() {
    std::uint64_t value = 0;
    int shift = 0;
    for (const std::byte byte : take(sizeof(T))) {
      value |= std::to_integer<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return static_cast<T>(value);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view what_;
  std::size_t position_ = 0;
};

}  // namespace lockstep::checkpoint
