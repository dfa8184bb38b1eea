#pragma once
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "host/segment.h"

namespace lockstep::host {

/// Gives out space in one member's part of a segment. Thread-safe.
class Arena {
 public:
  Arena(std::shared_ptr<Segment> segment, int member);

  /// `bytes` that are there (touching them cannot fail), aligned to 128; what they hold is
  /// undefined. Throws InternalError naming the bytes that are missing.
  Place allocate(std::size_t bytes);

  /// The same without pages: whoever uses a part of it commits that.
  Place reserve(std::size_t bytes);

  /// Gives back what `allocate` or `reserve` returned.
  void free(Place place) noexcept;

  /// Gives it back once `releases`, which may lie in it, has reached `count`: when the last of
  /// those who may still read it has said so. Looked at whenever space is asked for.
  void free_after(Place place, const std::atomic<std::uint32_t>& releases, std::uint32_t count);

  const std::shared_ptr<Segment>& segment() const { return segment_; }
  /// Bytes given out and not given back.
  std::size_t in_use();

 private:
  struct Retired {
    Place place;
    const std::atomic<std::uint32_t>* releases;
    std::uint32_t count;
  };

  Place take(std::size_t bytes, bool commit);
  void free_locked(Place place) noexcept;
  void sweep_locked() noexcept;

  const std::shared_ptr<Segment> segment_;
  std::mutex mutex_;
  std::map<Place, std::size_t> free_;  ///< by place; neighbours are joined
  std::map<Place, std::size_t> used_;
  std::vector<Retired> retired_;
};

/// Space of an arena that is given back with its last owner.
std::shared_ptr<std::byte> allocate_shared(const std::shared_ptr<Arena>& arena, std::size_t bytes);

}  // namespace lockstep::host
