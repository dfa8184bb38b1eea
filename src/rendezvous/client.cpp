#include "rendezvous/client.h"

#include "base/concat.h"
#include "base/env.h"
#include "rendezvous/session.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::Deadline;

Failure not_set(const std::string& what, Deadline deadline) {
  return {.kind = Failure::kTimeout,
          .happened = concat(what, " not set within ", seconds(deadline.limit())),
          .remedy = "see whether the rank that is to set it still runs, or raise the time limit"};
}

std::string value_of(const std::string& answer) {
  Unpacker fields(answer);
  fields.number();  // the call's id
  return fields.text();
}

std::string list(const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) text += concat(text.empty() ? "'" : ", '", key, "'");
  return text;
}

}  // namespace

std::shared_ptr<Client> Client::connect(const Endpoint& endpoint, const Member& self,
                                        Deadline deadline) {
  return std::make_shared<Client>(dial(endpoint, self, deadline), self);
}

Client::Client(Admission admission, Member self)
    : session_(std::make_shared<Session>(std::move(admission), std::move(self))) {
  session_->start();
}

Client::~Client() {
  leave();
  session_->abandon();
}

void Client::leave() noexcept {
  session_->leave();
  session_->finish();
}

const Member& Client::self() const { return session_->self(); }
const Member& Client::host() const { return session_->host(); }
std::string Client::local_address() const { return session_->local_address(); }

void Client::on_departure(std::function<void(const Member&, Departure)> handler) {
  session_->on_departure(std::move(handler));
}

void Client::set_reply_limit(std::chrono::milliseconds limit) { session_->set_reply_limit(limit); }

std::vector<Member> Client::wait_for_all(Deadline deadline) {
  const std::uint64_t id = session_->next_id();
  const std::string answer =
      session_->exchange({.id = id, .op = "rendezvous", .give_up = true},
                         Packer(Kind::kWaitForAll).number(id).take(), deadline);
  Unpacker fields(answer);
  fields.number();  // the call's id
  std::vector<Member> members;
  const std::uint64_t count = fields.number();
  for (std::uint64_t i = 0; i < count && fields.good(); ++i) members.push_back(fields.member());
  return members;
}

void Client::set(const std::string& key, const std::string& value) {
  const std::uint64_t id = session_->next_id();
  session_->exchange({.id = id, .op = "store set"},
                     Packer(Kind::kSet).number(id).text(key).text(value).take(),
                     session_->reply_deadline());
}

std::string Client::get(const std::string& key, Deadline deadline) {
  const std::uint64_t id = session_->next_id();
  return value_of(session_->exchange(
      {.id = id,
       .op = "store get",
       .at_deadline = [&] { return not_set(concat("key '", key, "' was"), deadline); }},
      Packer(Kind::kGet).number(id).text(key).take(), deadline));
}

std::int64_t Client::add(const std::string& key, std::int64_t amount) {
  const std::uint64_t id = session_->next_id();
  const std::string sum = value_of(session_->exchange(
      {.id = id, .op = "store add"}, Packer(Kind::kAdd).number(id).text(key).integer(amount).take(),
      session_->reply_deadline()));
  return base::parse_number(sum).value_or(0);
}

std::string Client::compare_set(const std::string& key, const std::string& expected,
                                const std::string& desired) {
  const std::uint64_t id = session_->next_id();
  return value_of(session_->exchange(
      {.id = id, .op = "store compare_set"},
      Packer(Kind::kCompareSet).number(id).text(key).text(expected).text(desired).take(),
      session_->reply_deadline()));
}

bool Client::erase(const std::string& key) {
  const std::uint64_t id = session_->next_id();
  return value_of(session_->exchange({.id = id, .op = "store erase"},
                                     Packer(Kind::kErase).number(id).text(key).take(),
                                     session_->reply_deadline())) == "1";
}

bool Client::has(const std::vector<std::string>& keys) {
  const std::uint64_t id = session_->next_id();
  return value_of(session_->exchange({.id = id, .op = "store has"},
                                     Packer(Kind::kHas).number(id).texts(keys).take(),
                                     session_->reply_deadline())) == "1";
}

void Client::wait(const std::vector<std::string>& keys, Deadline deadline) {
  const std::uint64_t id = session_->next_id();
  session_->exchange(
      {.id = id,
       .op = "store wait",
       .at_deadline = [&] { return not_set(concat("keys ", list(keys), " were"), deadline); }},
      Packer(Kind::kWait).number(id).texts(keys).take(), deadline);
}

std::int64_t Client::count_keys() {
  const std::uint64_t id = session_->next_id();
  const std::string count = value_of(session_->exchange({.id = id, .op = "store count_keys"},
                                                        Packer(Kind::kCount).number(id).take(),
                                                        session_->reply_deadline()));
  return base::parse_number(count).value_or(0);
}

void Client::append(const std::string& key, const std::string& value) {
  const std::uint64_t id = session_->next_id();
  session_->exchange({.id = id, .op = "store append"},
                     Packer(Kind::kAppend).number(id).text(key).text(value).take(),
                     session_->reply_deadline());
}

}  // namespace lockstep::rendezvous
