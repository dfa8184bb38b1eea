#pragma once
#include <memory>

#include "host/arena.h"
#include "host/rounds.h"

namespace lockstep::host {

/// The shared memory of one group: the seats of its rounds, a mailbox a pair, and two stages for
/// each member, in which it shows what the others read. It is given back when the last member has
/// destroyed its `Table`, for until then one may still be reading.
class Table {
 public:
  static constexpr std::size_t kStageBytes = std::size_t{256} << 10;  // two stay in a core's cache

  /// By one member, which tells the others the place.
  static Place create(const std::shared_ptr<Arena>& arena, int size);

  /// By every member, that one too.
  Table(std::shared_ptr<Segment> segment, Place place, int rank, int size);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const Segment& segment() const { return *segment_; }
  int size() const { return size_; }
  std::byte* seats() const;

  /// Where the first message from one member to another is told.
  std::atomic<Place>& mailbox(int from, int to) const;

  /// One of this member's two stages; its pages are there from the first call on.
  std::byte* stage(int which);

 private:
  struct Header;

  Header& header() const;

  std::shared_ptr<Segment> segment_;
  Place place_;
  int rank_;
  int size_;
  bool has_stages_ = false;
};

}  // namespace lockstep::host
