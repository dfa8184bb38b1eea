#include "comm/answerer.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/concat.h"
#include "base/socket.h"
#include "base/thread_name.h"
#include "comm/witness.h"

namespace lockstep::comm {
namespace {

using base::concat;
using host::CallRecord;

constexpr auto kConnectLimit = std::chrono::seconds(1);
constexpr auto kSendLimit = std::chrono::seconds(1);

// What a rank waits for is the first of its calls that is not done: later ones are queued.
std::string doing(const host::Recorder& recorder) {
  const auto calls = recorder.calls();
  if (calls.empty()) return "it has made no call";
  const auto waiting = std::find_if(calls.begin(), calls.end(), [](const CallRecord& call) {
    return call.state == CallRecord::State::kWaiting;
  });
  if (waiting == calls.end()) return concat("last call: ", tell(calls.back()));
  const auto behind = calls.end() - waiting - 1;
  return concat("in ", tell(*waiting), behind == 0 ? "" : concat(", ", behind, " calls behind it"));
}

bool send_all(int fd, const std::string& text) {
  const auto deadline = base::Deadline::in(kSendLimit);
  auto left = std::as_bytes(std::span(text));
  while (!left.empty()) {
    const base::Transfer sent = base::send_some(fd, left);
    if (sent.ended) return false;
    left = left.subspan(sent.count);
    std::array<pollfd, 1> room{{{fd, POLLOUT, 0}}};
    if (sent.would_block && !base::poll_until(room, deadline)) return false;
  }
  return true;
}

}  // namespace

std::string answer_text(int rank, const Answerer::Recorders& recorders) {
  std::string text = concat(rank, " ", doing(*recorders.at(rank)), "\n");
  for (const auto& [other, recorder] : recorders)
    if (other != rank) text += concat(other, " ", doing(*recorder), "\n");
  return text + "\n";
}

Answerer::Answerer(const std::string& path, int rank, Recorders recorders)
    : rank_(rank), recorders_(std::move(recorders)) {
  socket_ = std::move(
      base::connect_to(base::SocketAddress::unix_path(path), base::Deadline::in(kConnectLimit)).fd);
  if (!socket_) return;
  thread_ = std::thread([this] {
    try {
      serve();
    } catch (const std::exception&) {
      // Out of memory: no more answers, which is all that is lost.
    }
  });
}

Answerer::~Answerer() {
  over_.raise();
  if (thread_.joinable()) thread_.join();
}

void Answerer::serve() {
  base::name_this_thread("ls-answers");
  for (;;) {
    std::array<pollfd, 2> sources{{{socket_.get(), POLLIN, 0}, {over_.get(), POLLIN, 0}}};
    base::poll_until(sources, std::nullopt);
    if (sources[1].revents != 0) return;
    std::array<std::byte, 64> questions;
    const base::Transfer got = base::receive_some(socket_.get(), questions);
    if (got.ended) return;
    if (got.count > 0 && !send_all(socket_.get(), answer_text(rank_, recorders_))) return;
  }
}

}  // namespace lockstep::comm
