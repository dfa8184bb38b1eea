#include "host/arena.h"

#include <algorithm>
#include <iterator>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::host {
namespace {

constexpr std::size_t kAlignment = 128;  // of cache lines, which processors fetch in pairs
constexpr std::size_t kPage = 4096;
/// Smaller pieces keep their pages when they are freed: they are asked for again.
constexpr std::size_t kReturned = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena(std::shared_ptr<Segment> segment, int member) : segment_(std::move(segment)) {
  const Place begin = segment_->arena_begin(member) + kPage;  // the first page is the segment's own
  free_[begin] = segment_->arena_end(member) - begin;
}

Place Arena::allocate(std::size_t bytes) { return take(bytes, true); }

Place Arena::reserve(std::size_t bytes) { return take(bytes, false); }

Place Arena::take(std::size_t bytes, bool commit) {
  // Whole pages for what is large: it can then be returned, and no two tensors share one.
  const std::size_t unit = bytes >= kPage ? kPage : kAlignment;
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), unit);
  const std::lock_guard lock(mutex_);
  sweep_locked();
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const Place begin = hole->first, end = begin + hole->second;
    const Place place = round_up(begin, unit);
    if (place + size > end) continue;
    if (commit) segment_->commit(place, size);
    free_.erase(hole);
    if (place > begin) free_[begin] = place - begin;
    if (end > place + size) free_[place + size] = end - place - size;
    used_[place] = size;
    return place;
  }
  throw InternalError(base::concat("the shared memory of this rank has no room for ", bytes,
                                   " bytes: it is as large as the machine's memory"),
                      "free tensors, or start fewer workers");
}

void Arena::free(Place place) noexcept {
  const std::lock_guard lock(mutex_);
  free_locked(place);
}

void Arena::free_after(Place place, const std::atomic<std::uint32_t>& releases,
                       std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  retired_.push_back({place, &releases, count});
}

void Arena::sweep_locked() noexcept {
  std::erase_if(retired_, [this](const Retired& retired) {
    if (retired.releases->load(std::memory_order_acquire) < retired.count) return false;
    free_locked(retired.place);
    return true;
  });
}

void Arena::free_locked(Place place) noexcept {
  const auto used = used_.find(place);
  if (used == used_.end()) return;
  std::size_t size = used->second;
  used_.erase(used);
  if (size >= kReturned) segment_->release(place, size);
  auto next = free_.lower_bound(place);
  if (next != free_.end() && next->first == place + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == place) {
      before->second += size;
      return;
    }
  }
  free_[place] = size;
}

std::size_t Arena::in_use() {
  const std::lock_guard lock(mutex_);
  sweep_locked();
  std::size_t total = 0;
  for (const auto& [place, size] : used_) total += size;
  return total;
}

std::shared_ptr<std::byte> allocate_shared(const std::shared_ptr<Arena>& arena, std::size_t bytes) {
  const Place place = arena->allocate(bytes);
  return {arena->segment()->at(place), [arena, place](std::byte*) { arena->free(place); }};
}

}  // namespace lockstep::host
