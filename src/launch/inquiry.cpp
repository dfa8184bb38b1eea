#include "launch/inquiry.h"

#include <array>
#include <sstream>
#include <vector>

#include "base/env.h"
#include "base/os_error.h"
#include "base/socket.h"

namespace lockstep::launch {
namespace {

// A library that is at work answers in a fraction of this.
constexpr auto kAnswerLimit = std::chrono::milliseconds(500);
constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;
constexpr char kQuestion = '?';

}  // namespace

// An answer is one line a rank, "RANK TEXT", the answerer's own first, and an empty line.

Inquiry::Inquiry(base::Poller& poller, const std::filesystem::path& folder)
    : poller_(poller), path_((folder / "inquiry").string()) {
  base::SocketResult made = base::open_listener(base::SocketAddress::unix_path(path_));
  if (!made.fd) throw base::os_error("cannot listen at " + path_, made.error);
  listener_ = std::move(made.fd);
  poller_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_connection(); });
}

Inquiry::~Inquiry() {
  poller_.forget(listener_.get());
  for (const auto& [fd, connection] : connections_) poller_.forget(fd);
}

void Inquiry::on_connection() {
  for (;;) {
    base::SocketResult accepted = base::accept_from(listener_.get());
    if (!accepted.fd) return;
    const int fd = accepted.fd.get();
    auto& connection = connections_[fd];
    connection = std::make_unique<Connection>();
    connection->fd = std::move(accepted.fd);
    poller_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { on_answer(*connections_.at(fd)); });
  }
}

void Inquiry::ask(std::function<void(const Told&)> done) {
  if (done_) return;
  done_ = std::move(done);
  told_.clear();
  observed_.clear();
  deadline_ = base::Deadline::in(kAnswerLimit);
  for (const auto& [fd, connection] : connections_) {
    connection->answer.clear();
    connection->asked = base::send_some(fd, std::as_bytes(std::span(&kQuestion, 1))).count == 1;
  }
  finish_if_all_answered();
}

void Inquiry::on_answer(Connection& connection) {
  std::array<std::byte, 16384> piece;
  const int fd = connection.fd.get();
  const base::Transfer got = base::receive_some(fd, piece);
  if (got.would_block) return;
  connection.answer.append(reinterpret_cast<const char*>(piece.data()), got.count);
  if (got.ended || connection.answer.size() > kLongestAnswer) {
    close(fd);
  } else if (connection.answer.ends_with("\n\n")) {
    // One that comes too late for its question is no answer to the next.
    if (connection.asked) take(connection.answer);
    connection.asked = false;
    connection.answer.clear();
  }
  finish_if_all_answered();
}

void Inquiry::take(const std::string& answer) {
  std::istringstream lines(answer);
  bool own = true;
  for (std::string line; std::getline(lines, line) && !line.empty(); own = false) {
    const std::size_t blank = line.find(' ');
    const auto rank = base::parse_number(line.substr(0, blank));
    if (!rank || blank == std::string::npos) continue;
    (own ? told_ : observed_)[static_cast<int>(*rank)] = line.substr(blank + 1);
  }
}

void Inquiry::close(int fd) {
  poller_.forget(fd);
  connections_.erase(fd);
}

void Inquiry::finish_if_all_answered() {
  for (const auto& [fd, connection] : connections_)
    if (connection->asked) return;
  finish();
}

void Inquiry::step() {
  if (deadline_ && deadline_->expired()) finish();
}

void Inquiry::finish() {
  if (!done_) return;
  deadline_.reset();
  for (const auto& [rank, text] : observed_) told_.emplace(rank, text);
  std::exchange(done_, nullptr)(told_);
}

}  // namespace lockstep::launch
