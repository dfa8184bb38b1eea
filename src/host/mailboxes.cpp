#include "host/mailboxes.h"

#include <cstring>

#include "base/concat.h"

namespace lockstep::host {

/// In the sender's arena, with the bytes behind it. It is given back when the receiver has its
/// content and has gone on to the letter behind it.
struct Mailboxes::Letter {
  alignas(64) std::atomic<Place> next;
  std::atomic<std::uint32_t> releases;
  std::int32_t tag;
  std::uint64_t kind;
  std::uint64_t bytes;

  std::byte* content() { return reinterpret_cast<std::byte*>(this + 1); }
  void release() noexcept { releases.fetch_add(1, std::memory_order_acq_rel); }
};

Mailboxes::Mailboxes(std::shared_ptr<Turns> turns, std::shared_ptr<Arena> arena)
    : turns_(std::move(turns)),
      arena_(std::move(arena)),
      segment_(*arena_->segment()),
      senders_(static_cast<std::size_t>(turns_->size())),
      last_sent_(static_cast<std::size_t>(turns_->size())) {}

Mailboxes::~Mailboxes() {
  for (Sender& sender : senders_) {
    if (sender.newest != 0) letter(sender.newest).release();
    for (auto& [tag, stream] : sender.by_tag)
      for (const Place place : stream.letters)
        if (place != 0) letter(place).release();
  }
}

Mailboxes::Letter& Mailboxes::letter(Place place) const {
  return *reinterpret_cast<Letter*>(segment_.at(place));
}

void Mailboxes::send(const Message& message, const void* data) {
  const Place place = arena_->allocate(sizeof(Letter) + message.bytes);
  Letter& sent = *new (segment_.at(place)) Letter;
  sent.next.store(0, std::memory_order_relaxed);
  sent.releases.store(0, std::memory_order_relaxed);
  sent.tag = message.tag;
  sent.kind = message.kind;
  sent.bytes = message.bytes;
  if (message.bytes > 0) std::memcpy(sent.content(), data, message.bytes);
  arena_->free_after(place, sent.releases, 2);
  Place& last = last_sent_[static_cast<std::size_t>(message.peer)];
  std::atomic<Place>& link =
      last == 0 ? turns_->table().mailbox(turns_->rank(), message.peer) : letter(last).next;
  link.store(place, std::memory_order_seq_cst);
  last = place;
  turns_->rounds().wake(message.peer);
}

Mailboxes::Receipt Mailboxes::expect(const Message& message) {
  Stream& stream = senders_[static_cast<std::size_t>(message.peer)].by_tag[message.tag];
  return {message, stream.expected++};
}

void Mailboxes::collect(int from) {
  Sender& sender = senders_[static_cast<std::size_t>(from)];
  while (true) {
    const std::atomic<Place>& link = sender.newest == 0
                                         ? turns_->table().mailbox(from, turns_->rank())
                                         : letter(sender.newest).next;
    const Place place = link.load(std::memory_order_seq_cst);
    if (place == 0) return;
    sender.by_tag[letter(place).tag].letters.push_back(place);
    if (sender.newest != 0) letter(sender.newest).release();
    sender.newest = place;
  }
}

bool Mailboxes::is_there(const Receipt& receipt) {
  collect(receipt.expected.peer);
  const Stream& stream =
      senders_[static_cast<std::size_t>(receipt.expected.peer)].by_tag[receipt.expected.tag];
  return receipt.number - stream.taken < stream.letters.size();
}

void Mailboxes::receive(const Receipt& receipt, void* data, base::Deadline deadline) {
  const Message& expected = receipt.expected;
  const Arrival arrival = turns_->rounds().wait_for(
      expected.peer, [&] { return is_there(receipt); }, deadline.time());
  if (arrival == Arrival::kGone || arrival == Arrival::kAborted)
    throw PeerLost("connection closed: the sender is gone");
  if (arrival == Arrival::kLate)
    throw TimeoutError(
        base::concat("nothing came from rank ", expected.peer, " with tag ", expected.tag),
        "does that rank send, with the same tag?");
  Stream& stream = senders_[static_cast<std::size_t>(expected.peer)].by_tag[expected.tag];
  Place& place = stream.letters[receipt.number - stream.taken];
  Letter& message = letter(place);
  const bool fits = message.bytes == expected.bytes && message.kind == expected.kind;
  const std::uint64_t bytes = message.bytes;
  if (fits && bytes > 0) std::memcpy(data, message.content(), bytes);
  message.release();
  place = 0;
  for (; !stream.letters.empty() && stream.letters.front() == 0; ++stream.taken)
    stream.letters.pop_front();
  if (!fits)
    throw MismatchError(
        base::concat("rank ", expected.peer, " sent ", bytes, " bytes, and ", expected.bytes,
                     bytes == expected.bytes ? " of another dtype" : "", " were expected"),
        "send and recv take tensors of one dtype and size");
}

}  // namespace lockstep::host
