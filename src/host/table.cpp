#include "host/table.h"

#include <cstring>

namespace lockstep::host {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

}  // namespace

/// Before the seats.
struct Table::Header {
  alignas(128) std::atomic<std::uint32_t> releases;
};

namespace {

constexpr std::size_t kHeaderBytes = 128;

std::size_t mailboxes_at(int size) { return kHeaderBytes + Rounds::bytes_needed(size); }

/// Of all before the stages, in whole pages: stages begin on a page.
std::size_t head_bytes(int size) {
  const std::size_t end = mailboxes_at(size) + as_size(size) * as_size(size) * sizeof(Place);
  return (end + kPage - 1) / kPage * kPage;
}

}  // namespace

Place Table::create(const std::shared_ptr<Arena>& arena, int size) {
  static_assert(sizeof(Header) == kHeaderBytes);
  const std::size_t head = head_bytes(size);
  const Place place = arena->reserve(head + as_size(size) * 2 * kStageBytes);
  const auto& segment = arena->segment();
  segment->commit(place, head);
  std::memset(segment->at(place), 0, head);
  arena->free_after(place, reinterpret_cast<Header*>(segment->at(place))->releases,
                    static_cast<std::uint32_t>(size));
  return place;
}

Table::Table(std::shared_ptr<Segment> segment, Place place, int rank, int size)
    : segment_(std::move(segment)), place_(place), rank_(rank), size_(size) {}

Table::~Table() { header().releases.fetch_add(1, std::memory_order_acq_rel); }

Table::Header& Table::header() const { return *reinterpret_cast<Header*>(segment_->at(place_)); }

std::byte* Table::seats() const { return segment_->at(place_) + kHeaderBytes; }

std::atomic<Place>& Table::mailbox(int from, int to) const {
  auto* const first =
      reinterpret_cast<std::atomic<Place>*>(segment_->at(place_) + mailboxes_at(size_));
  return first[from * size_ + to];
}

std::byte* Table::stage(int which) {
  const Place mine = place_ + head_bytes(size_) + as_size(rank_) * 2 * kStageBytes;
  if (!has_stages_) segment_->commit(mine, 2 * kStageBytes);
  has_stages_ = true;
  return segment_->at(mine) + as_size(which) * kStageBytes;
}

}  // namespace lockstep::host
