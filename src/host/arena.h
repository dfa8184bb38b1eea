#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "host/segment.h"

namespace lockstep::host {

/// Gives out space in one member's part of a segment. Thread-safe.
class Arena {
 public:
  Arena(std::shared_ptr<Segment> segment, int member);

  /// `bytes` that are there (touching them cannot fail), aligned to 128; what they hold is
  /// undefined. Throws InternalError naming the bytes that are missing.
  Place allocate(std::size_t bytes);

  /// Gives back what `allocate` returned.
  void free(Place place) noexcept;

  const std::shared_ptr<Segment>& segment() const { return segment_; }
  std::size_t in_use() const;

 private:
  const std::shared_ptr<Segment> segment_;
  mutable std::mutex mutex_;
  std::map<Place, std::size_t> free_;  ///< by place; neighbours are joined
  std::map<Place, std::size_t> used_;
};

/// Space of an arena that is given back with its last owner.
std::shared_ptr<std::byte> allocate_shared(const std::shared_ptr<Arena>& arena, std::size_t bytes);

}  // namespace lockstep::host
