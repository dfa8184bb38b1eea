#include "rendezvous/server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/os_error.h"
#include "base/thread_name.h"
#include "rendezvous/hub.h"
#include "rendezvous/listener.h"

namespace lockstep::rendezvous {
namespace {

using base::Deadline;

constexpr std::size_t kVisitorLimit = 64;       // connections that have not introduced themselves
constexpr std::chrono::seconds kVisitLimit{5};  // and how long they may take
constexpr std::chrono::seconds kCrowdedVisitLimit{1};  // when others wait for their place
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kFarewellLimit{1};
constexpr std::size_t kReadSize = std::size_t{64} << 10;
constexpr int kReadsInTurn = 16;

struct Connection {
  base::Fd fd;
  Deadline visit_end = Deadline::in(kVisitLimit);
  std::string out;
  std::size_t sent = 0;
  bool closing = false;  // once `out` is sent
  bool ended = false;
};

}  // namespace

class Server::Loop {
 public:
  Loop(std::unique_ptr<Listener> listener, const Member& host);
  ~Loop();

  Endpoint endpoint() const { return endpoint_; }
  const std::vector<base::SocketAddress>& local_addresses() const { return local_; }
  const std::string& instance() const { return instance_; }
  std::size_t joined() const { return joined_.load(); }
  bool wait_until_alone(Deadline deadline);

 private:
  using Connections = std::map<Hub::Peer, Connection>;

  void run();
  void turn();
  void wait(std::optional<Deadline> deadline, bool accepting);
  std::optional<Deadline> next_deadline(std::size_t visitors, bool& accepting) const;
  void accept_some(std::size_t visitors);
  bool evict_slow_visitor();
  void read(Hub::Peer peer, Connection& connection);
  void flush(Connection& connection);
  void reap();
  void say_farewell();
  void tell_presence(std::size_t members);
  std::size_t count_visitors() const;
  bool visiting(const Connections::value_type& entry) const;

  std::unique_ptr<Listener> listener_;
  const Endpoint endpoint_;
  const std::vector<base::SocketAddress> local_;
  const std::string instance_ = base::random_hex(8);
  std::atomic<std::size_t> joined_{0};
  std::atomic<bool> stopping_{false};
  std::mutex presence_mutex_;
  std::condition_variable presence_changed_;
  std::size_t present_ = 0;
  base::EventFd wake_;

  // The thread's own.
  Hub hub_;
  Connections connections_;
  Hub::Peer next_peer_ = 1;
  std::optional<Deadline> accept_again_;
  std::vector<pollfd> events_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kReadSize);

  std::thread thread_;
};

Server::Loop::Loop(std::unique_ptr<Listener> listener, const Member& host)
    : listener_(std::move(listener)),
      endpoint_(listener_->endpoint()),
      local_(listener_->local_addresses()),
      hub_(host, instance_,
           {.send = [this](Hub::Peer peer,
                           std::string bytes) { connections_.at(peer).out += bytes; },
            .drop = [this](Hub::Peer peer) { connections_.at(peer).closing = true; }}) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw base::os_error("cannot start the store's thread", error.code().value());
  }
}

Server::Loop::~Loop() {
  stopping_ = true;
  wake_.raise();
  thread_.join();
}

void Server::Loop::run() {
  base::name_this_thread("ls-store");
  try {
    while (!stopping_) turn();
    say_farewell();
  } catch (const std::exception& error) {
    // Out of memory or descriptors: the closed connections tell every client that the store is
    // lost.
    base::log(base::LogLevel::kError, std::string("the store ends: ") + error.what());
    listener_->close();
  }
  connections_.clear();
  tell_presence(0);
}

void Server::Loop::tell_presence(std::size_t members) {
  {
    const std::lock_guard lock(presence_mutex_);
    if (std::exchange(present_, members) == members) return;
  }
  presence_changed_.notify_all();
}

bool Server::Loop::wait_until_alone(Deadline deadline) {
  std::unique_lock lock(presence_mutex_);
  return presence_changed_.wait_until(lock, deadline.time(), [this] { return present_ <= 1; });
}

bool Server::Loop::visiting(const Connections::value_type& entry) const {
  return !hub_.admitted(entry.first);
}

std::size_t Server::Loop::count_visitors() const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [this](const auto& entry) { return visiting(entry); }));
}

void Server::Loop::turn() {
  const std::size_t visitors = count_visitors();
  bool accepting = true;
  const auto deadline = next_deadline(visitors, accepting);
  wait(deadline, accepting);
  auto event = events_.begin() + 2;
  for (auto& [peer, connection] : connections_) {
    const short happened = (event++)->revents;
    if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0) read(peer, connection);
    if (!hub_.admitted(peer) && connection.visit_end.expired()) connection.ended = true;
  }
  for (auto& [peer, connection] : connections_) flush(connection);
  reap();
  if (accepting && events_[1].revents != 0) accept_some(count_visitors());
  joined_ = hub_.joined();
  tell_presence(hub_.present());
}

std::optional<Deadline> Server::Loop::next_deadline(std::size_t visitors, bool& accepting) const {
  std::optional<Deadline> next;
  const auto earlier = [&next](const Deadline& other) {
    if (!next || other.time() < next->time()) next = other;
  };
  if (visitors > 0)
    for (const auto& entry : connections_)
      if (visiting(entry)) earlier(entry.second.visit_end);
  if (accept_again_ && !accept_again_->expired()) {
    accepting = false;
    earlier(*accept_again_);
  }
  return next;
}

void Server::Loop::wait(std::optional<Deadline> deadline, bool accepting) {
  events_.clear();
  events_.push_back({wake_.get(), POLLIN, 0});
  events_.push_back({accepting ? listener_->fd() : -1, POLLIN, 0});
  for (const auto& [peer, connection] : connections_) {
    const bool unsent = connection.sent < connection.out.size();
    const short wanted =
        static_cast<short>((connection.closing ? 0 : POLLIN) | (unsent ? POLLOUT : 0));
    events_.push_back({connection.fd.get(), wanted, 0});
  }
  base::poll_until(events_, deadline);
}

void Server::Loop::accept_some(std::size_t visitors) {
  for (;;) {
    if (visitors >= kVisitorLimit && !evict_slow_visitor()) {
      // The newcomers wait in the listener's queue; room is made, or somebody is slow, soon.
      accept_again_ = Deadline::in(kAcceptPause);
      return;
    }
    auto [fd, error] = base::accept_from(listener_->fd());
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (error != 0) {
      // Out of descriptors: the queue keeps what cannot be taken now.
      accept_again_ = Deadline::in(kAcceptPause);
      return;
    }
    if (endpoint_.kind == Endpoint::kTcp) base::watch_for_silence(fd.get());
    connections_[next_peer_].fd = std::move(fd);
    hub_.open(next_peer_++);
    visitors = count_visitors();
  }
}

bool Server::Loop::evict_slow_visitor() {
  // The map is in the order of arrival.
  const auto slowest = std::find_if(connections_.begin(), connections_.end(),
                                    [this](const auto& entry) { return visiting(entry); });
  if (slowest == connections_.end() || slowest->second.visit_end.elapsed() < kCrowdedVisitLimit)
    return false;
  slowest->second.ended = true;
  reap();
  return true;
}

void Server::Loop::read(Hub::Peer peer, Connection& connection) {
  // A turn's share, so that one busy client does not keep the others waiting.
  for (int i = 0; i < kReadsInTurn && !connection.ended; ++i) {
    const auto got = base::receive_some(connection.fd.get(), buffer_);
    if (got.would_block) return;
    if (got.count > 0) hub_.receive(peer, {buffer_.data(), got.count});
    connection.ended = got.ended;
    // A visitor gets no second helping: what it may say fits into one.
    if (connection.closing || !hub_.admitted(peer)) return;
  }
}

void Server::Loop::flush(Connection& connection) {
  while (!connection.ended && connection.sent < connection.out.size()) {
    const auto rest = std::as_bytes(std::span(connection.out)).subspan(connection.sent);
    const auto sent = base::send_some(connection.fd.get(), rest);
    if (sent.would_block) return;
    connection.ended = sent.ended;
    connection.sent += sent.count;
  }
  connection.out.clear();
  connection.sent = 0;
  connection.ended = connection.ended || connection.closing;
}

void Server::Loop::reap() {
  // Closing one may put words for others into their `out`, or end them: go on until nothing
  // changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto entry = connections_.begin(); entry != connections_.end();) {
      if (!entry->second.ended) {
        ++entry;
        continue;
      }
      const Hub::Peer peer = entry->first;
      entry = connections_.erase(entry);
      hub_.close(peer);
      changed = true;
    }
    for (auto& [peer, connection] : connections_) flush(connection);
  }
}

void Server::Loop::say_farewell() {
  listener_->close();
  const auto deadline = Deadline::in(kFarewellLimit);
  hub_.say_goodbye();
  std::erase_if(connections_, [this](const auto& entry) { return visiting(entry); });
  // What clients still send is read and dropped: a close with unread bytes would reset the
  // connection and could take the goodbye with it.
  while (!connections_.empty() && !deadline.expired()) {
    for (auto& [peer, connection] : connections_) {
      const bool unsent = connection.sent < connection.out.size();
      flush(connection);
      if (unsent && connection.out.empty()) base::finish_sending(connection.fd.get());
    }
    std::erase_if(connections_, [](const auto& entry) { return entry.second.ended; });
    events_.clear();
    for (const auto& [peer, connection] : connections_)
      events_.push_back({connection.fd.get(),
                         static_cast<short>(connection.out.empty() ? POLLIN : POLLIN | POLLOUT),
                         0});
    if (events_.empty() || !base::poll_until(events_, deadline)) return;
    for (auto& [peer, connection] : connections_) {
      const auto got = base::receive_some(connection.fd.get(), buffer_);
      connection.ended = got.ended;
    }
    std::erase_if(connections_, [](const auto& entry) { return entry.second.ended; });
  }
}

Server::Server(const Endpoint& endpoint, const Member& host)
    : loop_(std::make_unique<Loop>(std::make_unique<Listener>(endpoint, host), host)) {}

Server::Server(base::Fd bound, const Member& host)
    : loop_(std::make_unique<Loop>(std::make_unique<Listener>(std::move(bound)), host)) {}

Server::~Server() = default;

Endpoint Server::endpoint() const { return loop_->endpoint(); }

std::vector<base::SocketAddress> Server::local_addresses() const {
  return loop_->local_addresses();
}

const std::string& Server::instance() const { return loop_->instance(); }

std::size_t Server::joined() const { return loop_->joined(); }

bool Server::wait_until_alone(Deadline deadline) { return loop_->wait_until_alone(deadline); }

}  // namespace lockstep::rendezvous
