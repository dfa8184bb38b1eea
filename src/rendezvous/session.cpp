#include "rendezvous/session.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "base/log.h"
#include "base/os_error.h"
#include "base/thread_name.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::Deadline;

constexpr std::chrono::seconds kFarewellLimit{1};
constexpr std::chrono::seconds kLastWordLimit{2};

}  // namespace

Client::Session::Session(Admission admission, Member self)
    : self_(std::move(self)),
      admission_(std::move(admission)),
      local_address_(base::bound_address(admission_.fd.get()).host()) {}

void Client::Session::start() {
  try {
    thread_ = std::thread([session = shared_from_this()] { session->run(); });
  } catch (const std::system_error& error) {
    throw base::os_error("cannot start the store client's thread", error.code().value());
  }
}

void Client::Session::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(leaving_, true)) return;
    if (connected_) send_locked(Packer(Kind::kGoodbye).take());
  }
  end_calls({.kind = Failure::kUsage,
             .happened = "this process has left the store",
             .remedy = "leave last"});
  wake_.raise();
}

bool Client::Session::on_reader() const {
  const std::lock_guard lock(mutex_);
  return reader_ == std::this_thread::get_id();
}

void Client::Session::finish() noexcept {
  if (on_reader()) return;
  const std::lock_guard lock(finish_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Client::Session::abandon() noexcept {
  if (on_reader()) thread_.detach();
}

std::uint64_t Client::Session::next_id() {
  const std::lock_guard lock(mutex_);
  return ++last_id_;
}

void Client::Session::check_usable_locked(const std::string& op) const {
  if (over_) raise(*over_, self_, op);
  if (reader_ == std::this_thread::get_id()) {
    raise({.kind = Failure::kUsage,
           .happened =
               "called in a departure handler, whose thread is the one that reads the answers",
           .remedy = "note the departure there, and call the store from another thread"},
          self_, op);
  }
}

std::string Client::Session::exchange(const Call& call, std::string frame, Deadline deadline) {
  if (frame.size() > kFrameLimit) {
    raise({.kind = Failure::kUsage,
           .happened = concat("key and value have ", frame.size(), " bytes, over the limit of ",
                              kFrameLimit),
           .remedy = "the store is for small values: send large ones by a collective"},
          self_, call.op);
  }
  Pending mine;
  std::unique_lock lock(mutex_);
  check_usable_locked(call.op);
  pending_.emplace(call.id, &mine);
  send_locked(frame);
  const auto done = [&mine] { return mine.done; };
  if (!mine.answered.wait_until(lock, deadline.time(), done)) {
    if (connected_)
      send_locked(Packer(call.give_up ? Kind::kGiveUp : Kind::kCancel).number(call.id).take());
    if (call.give_up) mine.answered.wait_until(lock, Deadline::in(kLastWordLimit).time(), done);
  }
  pending_.erase(call.id);
  if (!mine.done) raise_deadline(call, deadline);
  if (mine.failure) raise(*mine.failure, self_, call.op);
  return std::move(mine.answer);
}

void Client::Session::raise_deadline(const Call& call, Deadline deadline) const {
  if (call.at_deadline) raise(call.at_deadline(), self_, call.op);
  raise({.kind = Failure::kTimeout,
         .happened = concat(host().text(), ", which serves the store, has not answered for ",
                            seconds(deadline.limit())),
         .remedy = "see whether that process is stopped or its host overloaded",
         .peer = host().rank},
        self_, call.op);
}

void Client::Session::send_locked(std::string_view bytes) {
  if (out_.empty()) {
    // An error shows again in the reader, which then ends every call.
    bytes.remove_prefix(
        base::send_some(admission_.fd.get(), std::as_bytes(std::span(bytes))).count);
  }
  if (bytes.empty()) return;
  out_ += bytes;
  wake_.raise();
}

void Client::Session::on_departure(std::function<void(const Member&, Departure)> handler) {
  {
    const std::lock_guard lock(mutex_);
    listeners_.push_back({std::move(handler)});
  }
  wake_.raise();
}

Deadline Client::Session::reply_deadline() const {
  const std::lock_guard lock(mutex_);
  return Deadline::in(reply_limit_);
}

void Client::Session::set_reply_limit(std::chrono::milliseconds limit) {
  const std::lock_guard lock(mutex_);
  reply_limit_ = limit;
}

void Client::Session::run() noexcept {
  base::name_this_thread("ls-store-client");
  {
    const std::lock_guard lock(mutex_);
    reader_ = std::this_thread::get_id();
  }
  try {
    // Frames that came with the admission.
    while (const auto frame = admission_.reader.next()) handle(*frame);
    std::optional<Deadline> farewell;
    for (;;) {
      tell_listeners();
      std::array<pollfd, 2> events{pollfd{wake_.get(), POLLIN, 0}, pollfd{-1, POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        if (leaving_ && !connected_) return;
        if (leaving_ && !farewell) farewell = Deadline::in(kFarewellLimit);
        if (connected_) events[1].fd = admission_.fd.get();
        if (!out_.empty()) events[1].events |= POLLOUT;
      }
      if (!base::poll_until(events, farewell)) return;
      if (events[0].revents != 0) wake_.drain();
      if (events[1].revents != 0) read_until_quiet();
    }
  } catch (const std::exception& error) {
    base::log(base::LogLevel::kError, concat("the connection to the store ends: ", error.what()));
    connection_ended(false);
  }
}

void Client::Session::read_until_quiet() {
  {
    const std::lock_guard lock(mutex_);
    const auto sent = base::send_some(admission_.fd.get(), std::as_bytes(std::span(out_)));
    out_.erase(0, sent.count);
  }
  std::array<std::byte, 1 << 16> buffer;
  for (;;) {
    const auto got = base::receive_some(admission_.fd.get(), buffer);
    if (got.would_block) return;
    admission_.reader.feed({buffer.data(), got.count});
    while (const auto frame = admission_.reader.next()) handle(*frame);
    if (got.ended || admission_.reader.broken()) return connection_ended(false);
    const std::lock_guard lock(mutex_);
    if (!connected_) return;
  }
}

void Client::Session::handle(std::string_view frame) {
  Unpacker fields(frame);
  switch (fields.kind()) {
    case Kind::kReply: {
      const std::uint64_t id = fields.number();
      return answer(id, std::string(frame), std::nullopt);
    }
    case Kind::kError: {
      const std::uint64_t id = fields.number();
      return answer(id, "", fields.failure());
    }
    case Kind::kDeparted: {
      const Member member = fields.member();
      return note_departure(member, fields.number() == 0 ? Departure::kLeft : Departure::kLost);
    }
    case Kind::kOver:
      return end_calls(fields.failure());
    case Kind::kClosing:
      return connection_ended(true);
    default:
      return;  // of a later version, and meant to be passed over
  }
}

void Client::Session::answer(std::uint64_t id, std::string frame, std::optional<Failure> failure) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  Pending& call = *found->second;
  call.answer = std::move(frame);
  call.failure = std::move(failure);
  call.done = true;
  call.answered.notify_one();
}

void Client::Session::note_departure(const Member& member, Departure how) {
  const std::lock_guard lock(mutex_);
  const bool known = std::any_of(departures_.begin(), departures_.end(), [&](const auto& departed) {
    return departed.member.rank == member.rank;
  });
  if (!known) departures_.push_back({member, how});
}

void Client::Session::end_calls(const Failure& why) {
  const std::lock_guard lock(mutex_);
  if (!over_) over_ = why;
  for (const auto& [id, call] : pending_) {
    if (call->done) continue;
    call->failure = over_;
    call->done = true;
    call->answered.notify_one();
  }
}

void Client::Session::connection_ended(bool on_purpose) {
  bool leaving = false;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(connected_, false)) return;
    out_.clear();
    leaving = leaving_;
    base::finish_sending(admission_.fd.get());
  }
  if (leaving) return;
  note_departure(host(), on_purpose ? Departure::kLeft : Departure::kLost);
  // First the news, then the failures: who sees a call fail can know why.
  tell_listeners();
  end_calls({.kind = Failure::kPeerLost,
             .happened = on_purpose ? concat("the store is closed: ", host().text(), " has left")
                                    : concat("store lost: ", host().text(), " is gone"),
             .remedy = on_purpose ? "let the rank that serves the store leave last"
                                  : concat("look at the output of rank ", host().rank,
                                           "; restart the job"),
             .peer = host().rank});
}

void Client::Session::tell_listeners() {
  for (std::size_t i = 0;; ++i) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (leaving_ || i >= listeners_.size()) return;
      Listening& listening = listeners_[i];
      if (listening.told == departures_.size()) break;
      const Departed departed = departures_[listening.told++];
      const auto handler = listening.handler;
      lock.unlock();
      try {
        handler(departed.member, departed.how);
      } catch (const std::exception& error) {
        base::log(base::LogLevel::kError, concat("a departure handler threw: ", error.what()));
      }
    }
  }
}

}  // namespace lockstep::rendezvous
