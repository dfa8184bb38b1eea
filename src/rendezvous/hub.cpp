#include "rendezvous/hub.h"

#include <utility>

#include "base/concat.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kValueLimit =
    kFrameLimit - 1024;  // a value fits into the frame that answers a get

}  // namespace

Hub::Hub(Member host, std::string instance, Outlet outlet)
    : roster_(std::move(host)), instance_(std::move(instance)), outlet_(std::move(outlet)) {}

void Hub::open(Peer peer) { visitors_.try_emplace(peer); }

bool Hub::admitted(Peer peer) const {
  const auto found = visitors_.find(peer);
  return found != visitors_.end() && found->second.rank.has_value();
}

void Hub::drop(Peer peer, Visitor& visitor) {
  visitor.dropped = true;
  outlet_.drop(peer);
}

void Hub::receive(Peer peer, std::span<const std::byte> bytes) {
  const auto found = visitors_.find(peer);
  if (found == visitors_.end() || found->second.dropped) return;
  Visitor& visitor = found->second;
  visitor.reader.feed(bytes);
  while (!visitor.dropped) {
    const auto frame = visitor.reader.next();
    if (!frame) break;
    handle(peer, visitor, *frame);
  }
  if (!visitor.dropped && visitor.reader.broken()) turn_away(peer, visitor);
}

void Hub::turn_away(Peer peer, Visitor& visitor) {
  // One of our own of another version learns ours; a stranger learns nothing.
  if (visitor.reader.state() == FrameReader::State::kOtherVersion)
    outlet_.send(peer, greeting(kServerMagic));
  drop(peer, visitor);
  // A member that talks nonsense: nothing it says later can be trusted either.
  if (visitor.rank) depart(peer, *visitor.rank, Departure::kLost);
}

void Hub::close(Peer peer) {
  const auto found = visitors_.find(peer);
  if (found == visitors_.end()) return;
  const Visitor visitor = std::move(found->second);
  visitors_.erase(found);
  if (visitor.rank && !visitor.dropped) depart(peer, *visitor.rank, Departure::kLost);
}

void Hub::say_goodbye() { to_members(Packer(Kind::kClosing).take()); }

void Hub::handle(Peer peer, Visitor& visitor, std::string_view frame) {
  Unpacker fields(frame);
  if (visitor.rank) return request(peer, visitor, fields);
  if (fields.kind() == Kind::kProbe && fields.complete()) {
    outlet_.send(peer, greeting(kServerMagic) +
                           Packer(Kind::kIdentity).text(instance_).member(roster_.host()).take());
    return drop(peer, visitor);
  }
  if (fields.kind() == Kind::kHello) return hello(peer, visitor, fields);
  drop(peer, visitor);
}

void Hub::hello(Peer peer, Visitor& visitor, Unpacker& fields) {
  const Member newcomer = fields.member();
  if (!fields.complete()) return drop(peer, visitor);
  auto refusal = roster_.refusal(newcomer);
  if (!refusal && over_) refusal = Roster::Refusal{*over_};
  std::string answer = greeting(kServerMagic);
  if (!refusal) {
    answer += Packer(Kind::kAdmitted).text(instance_).member(roster_.host()).take();
    for (const auto& [member, how] : roster_.departed())
      answer +=
          Packer(Kind::kDeparted).member(member).number(static_cast<std::uint64_t>(how)).take();
    visitor.rank = newcomer.rank;
    visitor.reader.set_limit(kFrameLimit);
    roster_.join(newcomer);
    outlet_.send(peer, std::move(answer));
    return answer_all_waiting();
  }
  answer += Packer(Kind::kRefused)
                .text(instance_)
                .member(roster_.host())
                .number(refusal->transient)
                .failure(refusal->failure)
                .take();
  outlet_.send(peer, std::move(answer));
  drop(peer, visitor);
  if (!refusal->ends_meeting || over_) return;
  over_ = refusal->failure;
  over_->kind = Failure::kRendezvous;
  to_members(Packer(Kind::kOver).failure(*over_).take());
}

void Hub::request(Peer peer, Visitor& visitor, Unpacker& fields) {
  if (fields.kind() == Kind::kGoodbye) {
    drop(peer, visitor);
    return depart(peer, *visitor.rank, Departure::kLeft);
  }
  const std::uint64_t id = fields.number();
  const bool understood =
      change(peer, id, fields) || look(peer, id, fields) || meet(peer, id, fields);
  if (!understood) turn_away(peer, visitor);
}

bool Hub::change(Peer peer, std::uint64_t id, Unpacker& fields) {
  KeyValues::Ready ready;
  const Kind kind = fields.kind();
  if (kind != Kind::kSet && kind != Kind::kAppend && kind != Kind::kAdd &&
      kind != Kind::kCompareSet && kind != Kind::kErase)
    return false;
  const std::string key = fields.text();
  if (kind == Kind::kAdd) {
    const std::int64_t amount = fields.integer();
    if (!fields.complete()) return false;
    const auto sum = values_.add(key, amount, ready);
    if (!sum) {
      fail(peer, id,
           {.kind = Failure::kUsage,
            .happened =
                base::concat("the value of key '", key, "' is not a number, or its sum with ",
                             amount, " has more than 64 bits"),
            .remedy = "use a key of its own for counting"});
      return true;
    }
    reply(peer, id, std::to_string(*sum));
  } else if (kind == Kind::kErase) {
    if (!fields.complete()) return false;
    reply(peer, id, values_.erase(key) ? "1" : "0");
  } else {
    std::string value = fields.text();
    const std::string desired = kind == Kind::kCompareSet ? fields.text() : "";
    if (!fields.complete()) return false;
    if (kind == Kind::kAppend && !values_.can_append(key, value.size(), kValueLimit)) {
      fail(peer, id,
           {.kind = Failure::kUsage,
            .happened = base::concat("key '", key, "' would grow over the limit of ", kValueLimit,
                                     " bytes"),
            .remedy = "erase it from time to time, or use several keys"});
      return true;
    }
    std::string result;
    if (kind == Kind::kSet) ready = values_.set(key, std::move(value));
    if (kind == Kind::kAppend) ready = values_.append(key, value);
    if (kind == Kind::kCompareSet) result = values_.compare_set(key, value, desired, ready);
    reply(peer, id, result);
  }
  answer(ready);
  return true;
}

bool Hub::look(Peer peer, std::uint64_t id, Unpacker& fields) {
  if (fields.kind() == Kind::kGet) {
    const std::string key = fields.text();
    if (!fields.complete()) return false;
    if (values_.wait({key}, {peer, id, key})) reply(peer, id, *values_.find(key));
    return true;
  }
  if (fields.kind() == Kind::kWait || fields.kind() == Kind::kHas) {
    const std::vector<std::string> keys = fields.texts();
    if (!fields.complete()) return false;
    if (fields.kind() == Kind::kHas) reply(peer, id, values_.has(keys) ? "1" : "0");
    if (fields.kind() == Kind::kWait && values_.wait(keys, {peer, id, std::nullopt}))
      reply(peer, id, "");
    return true;
  }
  if (!fields.complete()) return false;
  if (fields.kind() == Kind::kCount) return reply(peer, id, std::to_string(values_.count())), true;
  if (fields.kind() == Kind::kCancel) return values_.forget(peer, id), true;
  return false;
}

bool Hub::meet(Peer peer, std::uint64_t id, Unpacker& fields) {
  if (!fields.complete()) return false;
  if (fields.kind() == Kind::kWaitForAll) {
    waiting_for_all_.emplace_back(peer, id);
    answer_all_waiting();
    return true;
  }
  if (fields.kind() != Kind::kGiveUp) return false;
  // One that gives up ends the wait of all, so that every rank says the same.
  const Failure missing = roster_.missing();
  for (const auto& [waiter, request] : std::exchange(waiting_for_all_, {}))
    fail(waiter, request, missing);
  return true;
}

void Hub::answer_all_waiting() {
  if (roster_.complete()) {
    const auto members = roster_.members();
    for (const auto& [waiter, request] : std::exchange(waiting_for_all_, {})) {
      Packer packer(Kind::kReply);
      packer.number(request).number(members.size());
      for (const auto& member : members) packer.member(member);
      outlet_.send(waiter, packer.take());
    }
  } else if (const auto broken = roster_.broken()) {
    for (const auto& [waiter, request] : std::exchange(waiting_for_all_, {}))
      fail(waiter, request, *broken);
  }
}

void Hub::depart(Peer peer, int rank, Departure how) {
  std::erase_if(waiting_for_all_, [peer](const auto& waiter) { return waiter.first == peer; });
  values_.forget(peer);
  roster_.depart(rank, how);
  const Member& gone = roster_.departed().back().member;
  to_members(Packer(Kind::kDeparted).member(gone).number(static_cast<std::uint64_t>(how)).take());
  answer_all_waiting();
}

void Hub::reply(Peer peer, std::uint64_t id, std::string_view value) {
  outlet_.send(peer, Packer(Kind::kReply).number(id).text(value).take());
}

void Hub::fail(Peer peer, std::uint64_t id, const Failure& failure) {
  outlet_.send(peer, Packer(Kind::kError).number(id).failure(failure).take());
}

void Hub::answer(const KeyValues::Ready& ready) {
  for (const auto& waiter : ready) {
    const std::string* value = waiter.wanted ? values_.find(*waiter.wanted) : nullptr;
    reply(waiter.peer, waiter.request, value != nullptr ? *value : "");
  }
}

void Hub::to_members(const std::string& frame) {
  for (const auto& [peer, visitor] : visitors_)
    if (visitor.rank && !visitor.dropped) outlet_.send(peer, frame);
}

}  // namespace lockstep::rendezvous
