#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/shared_memory.h"

namespace lockstep::host {

/// A byte's distance from the start of the segment: the same byte in every process. 0 is none.
using Place = std::uint64_t;

/// Memory that the processes of one host map together: one arena for each member, in which that
/// member alone gives out space and all may read and write. An arena is as large as the machine's
/// memory; pages are there from when they are committed.
class Segment {
 public:
  /// In anonymous memory, or as a file in `folder` for processes that cannot see each other's
  /// descriptors. `cookie` tells it from any other.
  static std::shared_ptr<Segment> create(int members, const std::string& cookie,
                                         const std::string& folder = "");

  /// What another process of this host made for as many members with the same cookie. Throws
  /// InternalError when it is not there or not that one.
  static std::shared_ptr<Segment> open(const std::string& path, int members,
                                       const std::string& cookie);

  int members() const { return members_; }
  const std::string& path() const { return memory_.path(); }
  void remove_name() noexcept { memory_.remove_name(); }

  std::byte* at(Place place) const { return memory_.data() + place; }

  /// Whether [data, data + bytes) lies in the segment.
  bool holds(const void* data, std::size_t bytes) const;

  /// Of a byte in the segment.
  Place place_of(const void* data) const {
    return static_cast<Place>(static_cast<const std::byte*>(data) - memory_.data());
  }

  Place arena_begin(int member) const { return static_cast<Place>(member) * arena_bytes(members_); }
  Place arena_end(int member) const { return arena_begin(member + 1); }

  void commit(Place place, std::size_t bytes) const { memory_.commit(place, bytes); }
  void release(Place place, std::size_t bytes) const noexcept { memory_.release(place, bytes); }

 private:
  Segment(base::SharedMemory memory, int members) : memory_(std::move(memory)), members_(members) {}

  static std::size_t arena_bytes(int members);

  base::SharedMemory memory_;
  int members_;
};

}  // namespace lockstep::host
