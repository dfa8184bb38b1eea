#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::data {

/// Bytes in memory, kept alive by whoever holds a copy. `data` may point into a larger block.
struct SharedBytes {
  std::shared_ptr<std::uint8_t> data;
  std::size_t size = 0;

  std::span<const std::uint8_t> view() const { return {data.get(), size}; }
};

}  // namespace lockstep::data
