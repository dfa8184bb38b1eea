#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "host/arena.h"
#include "host/turns.h"

namespace lockstep::host {

/// Messages between two members of a group. A message is copied when it is sent, so that sending
/// waits for nobody; messages with one tag arrive in the order in which they were sent. One thread
/// at a time.
class Mailboxes {
 public:
  struct Message {
    int peer;  ///< the other side
    int tag;
    std::uint64_t kind;  ///< what the bytes are: must be the same on both sides
    std::size_t bytes;
  };

  /// A receive that was asked for: the n-th of its sender and tag gets the n-th message.
  struct Receipt {
    Message expected;
    std::uint64_t number;
  };

  Mailboxes(std::shared_ptr<Turns> turns, std::shared_ptr<Arena> arena);
  /// Messages that were not received are dropped.
  ~Mailboxes();
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  void send(const Message& message, const void* data);

  Receipt expect(const Message& message);

  /// Whether `receive` would not wait.
  bool is_there(const Receipt& receipt);

  /// Waits for the message and copies it to `data`. MismatchError when it is of another kind or
  /// size, PeerLost when its sender is gone, TimeoutError at the deadline.
  void receive(const Receipt& receipt, void* data, base::Deadline deadline);

 private:
  struct Letter;

  /// The messages of one sender with one tag: those behind the `taken` first.
  struct Stream {
    std::uint64_t expected = 0;
    std::uint64_t taken = 0;
    std::deque<Place> letters;  ///< 0: received out of order
  };

  struct Sender {
    Place newest = 0;  ///< the last letter that was taken from the box
    std::map<int, Stream> by_tag;
  };

  Letter& letter(Place place) const;
  void collect(int sender);

  std::shared_ptr<Turns> turns_;
  std::shared_ptr<Arena> arena_;
  const Segment& segment_;
  std::vector<Sender> senders_;
  std::vector<Place> last_sent_;  ///< by receiver
};

}  // namespace lockstep::host
