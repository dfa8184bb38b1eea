#include "host/segment.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::host {
namespace {

constexpr std::size_t kCookieBytes = 64;  // at the very start, which no arena gives out
constexpr std::size_t kGranule = std::size_t{1} << 21;

// What a process can map beside all else: half of x86-64's 47 bits, and less under a sanitizer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kLargest = std::size_t{1} << 36;
#else
constexpr std::size_t kLargest = std::size_t{1} << 46;
#endif

}  // namespace

std::size_t Segment::arena_bytes(int members) {
  const std::size_t share = kLargest / static_cast<std::size_t>(members);
  return std::min(base::physical_memory(), share) / kGranule * kGranule;
}

std::shared_ptr<Segment> Segment::create(int members, const std::string& cookie,
                                         const std::string& folder) {
  const std::size_t bytes = static_cast<std::size_t>(members) * arena_bytes(members);
  const std::string name = base::concat("lockstep-", cookie);
  std::shared_ptr<Segment> segment(
      new Segment(folder.empty() ? base::SharedMemory::create(name, bytes)
                                 : base::SharedMemory::create_in(folder, name, bytes),
                  members));
  segment->commit(0, kCookieBytes);
  std::memcpy(segment->at(0), cookie.data(), std::min(cookie.size(), kCookieBytes));
  return segment;
}

std::shared_ptr<Segment> Segment::open(const std::string& path, int members,
                                       const std::string& cookie) {
  const std::size_t bytes = static_cast<std::size_t>(members) * arena_bytes(members);
  std::shared_ptr<Segment> segment(new Segment(base::SharedMemory::open(path, bytes), members));
  segment->commit(0, kCookieBytes);  // of a stranger's file the first page may be missing
  if (std::memcmp(segment->at(0), cookie.data(), std::min(cookie.size(), kCookieBytes)) != 0)
    throw InternalError(base::concat(path, " is not the shared memory of this job"));
  return segment;
}

bool Segment::holds(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  return begin >= memory_.data() && begin + bytes <= memory_.data() + memory_.size();
}

}  // namespace lockstep::host
