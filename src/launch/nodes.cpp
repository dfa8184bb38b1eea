#include "launch/nodes.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "base/env.h"
#include "base/fd.h"
#include "base/held_port.h"
#include "base/host.h"
#include "base/log.h"
#include "base/route.h"
#include "base/socket.h"
#include "base/thread_name.h"
#include "launch/meeting_place.h"
#include "launch/outcome_json.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"

namespace lockstep::launch {
namespace {

using base::concat;
using base::Deadline;
using rendezvous::Client;
using rendezvous::Departure;
using rendezvous::Endpoint;
using rendezvous::Member;
using rendezvous::Server;
using Json = nlohmann::json;

// "For ever" for a wait that the end of the attempt or of the client ends.
constexpr auto kUnlimited = std::chrono::hours(24 * 365);

// How long to wait for the others to take note of the job's end.
constexpr auto kFarewell = std::chrono::milliseconds(500);

// How often, and how long each time, an agent whose place is taken looks for the one that took it.
constexpr int kServeRounds = 3;
constexpr auto kServeRound = std::chrono::seconds(1);

// How long the answer to a short message may take; beyond it the store counts as lost.
constexpr auto kReplyLimit = std::chrono::seconds(10);

Deadline::Clock::duration meeting_limit(const RunOptions& options) {
  for (const char* key : {"timeout", "join_timeout"}) {
    const auto found = options.rendezvous_settings.find(key);
    const auto seconds = found == options.rendezvous_settings.end()
                             ? std::nullopt
                             : base::parse_number(found->second);
    if (seconds && *seconds > 0) return std::chrono::seconds(*seconds);
  }
  return std::chrono::seconds(900);
}

Deadline sooner(Deadline left, Deadline right) { return left.time() < right.time() ? left : right; }

Member introduce(const RunOptions& options) {
  Member self;
  self.job_id = options.rendezvous_id;
  // Agents have no common parent that could give them a secret; a user may.
  self.token = base::Env::of_process().text(base::contract::kToken).value_or("");
  self.rank = options.node_rank;
  self.world_size = options.nodes;
  self.host = base::host_name();
  self.pid = base::this_pid();
  return self;
}

// Does this host have the address where the nodes meet? When the name is not known (yet), node 0
// has.
bool owns(const MeetingPlace& place, int node_rank, Deadline deadline) {
  const base::Resolution found = base::resolve(place.host, place.port, deadline);
  if (found.addresses.empty()) return node_rank == 0;
  const auto own = base::interface_addresses();
  return std::any_of(
      found.addresses.begin(), found.addresses.end(), [&](const base::SocketAddress& address) {
        return std::any_of(own.begin(), own.end(), [&](const base::InterfaceAddress& mine) {
          return mine.address.host() == address.host();
        });
      });
}

std::string node_text(const Member& member) {
  return concat("node ", member.rank, " (host ", member.host, ", launcher's pid ", member.pid, ")");
}

}  // namespace

// Shared with the threads: they may outlast the owner's interest, never the state.
class Nodes::State {
 public:
  explicit State(const RunOptions& options) : options_(options) {}

  ~State() {
    if (agreeing_.joinable()) agreeing_.join();
    // With the end known the thread is about to finish; without it only the goodbye ends its wait.
    if (client_ && !read(&State::end_)) client_->leave();
    if (waiting_.joinable()) waiting_.join();
  }

  const base::EventFd& event() const { return event_; }

  void begin(int attempt) {
    if (agreeing_.joinable()) agreeing_.join();
    if (waiting_.joinable()) waiting_.join();
    {
      const std::lock_guard lock(mutex_);
      agreement_.reset();
      end_.reset();
    }
    agreeing_ = std::thread([this, attempt] {
      base::name_this_thread("ls-nodes");
      guarded([&] { agree(attempt); });
    });
  }

  void tell(int attempt, const AttemptOutcome& outcome) {
    guarded([&] { client_->compare_set(end_key(attempt), "", to_json(outcome)); });
  }

  void tell_success(int attempt) {
    guarded([&] {
      if (client_->add(concat("done/", attempt), 1) != options_.nodes) return;
      AttemptOutcome success;
      success.attempt = attempt;
      client_->compare_set(end_key(attempt), "", to_json(success));
    });
  }

  template <class Value>
  Value read(const Value State::*member) const {
    const std::lock_guard lock(mutex_);
    return this->*member;
  }

  std::optional<Agreement> agreement_;
  std::string failure_;
  std::optional<AttemptOutcome> end_;

 private:
  static std::string end_key(int attempt) { return concat("end/", attempt); }

  // What goes wrong between the nodes becomes `failure`.
  template <class Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = why;
    }
    event_.raise();
  }

  void meet(Deadline deadline) {
    const MeetingPlace place = meeting_place(options_);
    try {
      enter(place, introduce(options_), deadline);
      client_->set_reply_limit(kReplyLimit);
      client_->wait_for_all(deadline);
    } catch (const Error& error) {
      throw RendezvousError(
          concat("the ", options_.nodes, " nodes of the job could not meet at ", place.host, ":",
                 place.port, " (ranks are those of nodes): ", error.happened()),
          error.remedy());
    }
    client_->on_departure(
        [this](const Member& member, Departure how) { on_departure(member, how); });
  }

  // Several agents may have the address, being on one host: the first to listen serves, the others
  // are its clients. Two that begin to listen in the same instant may both be refused, so once
  // more.
  void enter(const MeetingPlace& place, const Member& self, Deadline deadline) {
    const Endpoint endpoint = Endpoint::tcp(place.host, place.port);
    const bool owner = owns(place, options_.node_rank, deadline);
    std::optional<RendezvousError> refused;
    for (int round = 0; owner && round < kServeRounds; ++round) {
      try {
        server_ = std::make_unique<Server>(endpoint, self);
        break;
      } catch (const RendezvousError& error) {
        refused = error;
      }
      try {
        client_ = Client::connect(endpoint, self, sooner(deadline, Deadline::in(kServeRound)));
        return;
      } catch (const RendezvousError& error) {
        base::log(base::LogLevel::kInfo, error.what());
      }
    }
    if (refused && !server_) throw *refused;
    client_ = Client::connect(endpoint, self, deadline);
  }

  void on_departure(const Member& member, Departure how) {
    {
      const std::lock_guard lock(mutex_);
      // After the end of the last attempt everyone goes.
      if (end_) return;
    }
    fail(
        concat(node_text(member), how == Departure::kLost
                                      ? " is gone: it was killed, or its host or the network failed"
                                      : " left the job"));
  }

  void agree(int attempt) {
    const Deadline deadline = Deadline::in(meeting_limit(options_));
    if (!client_) {
      meet(deadline);
      publish_self();
    }
    client_->set(concat("ready/", attempt, "/", options_.node_rank), "1");
    const std::vector<std::string> ready = keys_of_all("ready", attempt);
    client_->wait(ready, deadline);
    if (options_.node_rank == 0) publish_attempt(attempt, deadline);
    Agreement agreement = read_attempt(attempt, deadline);
    {
      const std::lock_guard lock(mutex_);
      agreement_ = std::move(agreement);
    }
    event_.raise();
    waiting_ = std::thread([this, attempt] {
      base::name_this_thread("ls-nodes-end");
      guarded([&] { wait_for_end(attempt); });
    });
  }

  void wait_for_end(int attempt) {
    AttemptOutcome outcome =
        outcome_from_json(client_->get(end_key(attempt), Deadline::in(kUnlimited)));
    {
      const std::lock_guard lock(mutex_);
      end_ = std::move(outcome);
    }
    event_.raise();
    // Nobody leaves before all know the end: to the others it would look like a loss.
    const std::vector<std::string> seen = keys_of_all("seen", attempt);
    try {
      client_->set(seen[static_cast<std::size_t>(options_.node_rank)], "1");
      client_->wait(seen, Deadline::in(kFarewell));
    } catch (const Error& error) {
      base::log(base::LogLevel::kInfo,
                concat("not every node took note of the end: ", error.what()));
    }
  }

  // "ready/0/0", "ready/0/1", ...: one for each node.
  std::vector<std::string> keys_of_all(const char* what, int attempt) const {
    std::vector<std::string> keys(static_cast<std::size_t>(options_.nodes));
    for (std::size_t node = 0; node < keys.size(); ++node)
      keys[node] = concat(what, "/", attempt, "/", node);
    return keys;
  }

  void publish_self() {
    const std::string address =
        options_.local_address.empty() ? client_->local_address() : options_.local_address;
    const Json self = {{"workers", options_.local_world_size}, {"address", address}};
    client_->set(concat("node/", options_.node_rank), self.dump());
  }

  Json node(int rank, Deadline deadline) {
    return Json::parse(client_->get(concat("node/", rank), deadline));
  }

  // The address of node 0 that the others reach: of the interface from which packets to them leave.
  std::string master_address(Deadline deadline) {
    if (!options_.local_address.empty()) return options_.local_address;
    for (int rank = 1; rank < options_.nodes; ++rank) {
      const base::Resolution other =
          base::resolve(node(rank, deadline).at("address").get<std::string>(), 0, deadline);
      if (other.addresses.empty() || other.addresses.front().is_loopback()) continue;
      return base::address_towards(other.addresses.front()).host();
    }
    return client_->local_address();
  }

  void publish_attempt(int attempt, Deadline deadline) {
    hold_port();
    if (attempt == 0) job_ = {{"id", base::random_hex(8)}, {"token", base::random_hex(16)}};
    Json json = job_;
    json["address"] = master_address(deadline);
    json["port"] = port_->number();
    client_->set(concat("attempt/", attempt), json.dump());
  }

  // The port after the meeting place's if it is free, so that firewalls can know it; else any.
  void hold_port() {
    const int wanted = options_.rendezvous_endpoint.empty()
                           ? meeting_place(options_).port + 1
                           : options_.master_port.value_or(meeting_place(options_).port + 1);
    try {
      port_ = std::make_unique<base::HeldPort>(static_cast<std::uint16_t>(std::min(wanted, 65535)));
    } catch (const UsageError&) {
      port_ = std::make_unique<base::HeldPort>();
    }
  }

  Agreement read_attempt(int attempt, Deadline deadline) {
    const Json json = Json::parse(client_->get(concat("attempt/", attempt), deadline));
    Agreement agreement;
    agreement.job = {options_.rendezvous_id, json.at("id").get<std::string>(),
                     json.at("token").get<std::string>()};
    Placement& placement = agreement.placement;
    placement.attempt = attempt;
    placement.node_rank = options_.node_rank;
    placement.nodes = options_.nodes;
    placement.local_world_size = options_.local_world_size;
    placement.world_size = 0;
    for (int rank = 0; rank < options_.nodes; ++rank) {
      if (rank == options_.node_rank) placement.first_rank = placement.world_size;
      placement.world_size += node(rank, deadline).at("workers").get<int>();
    }
    json.at("address").get_to(placement.master_address);
    json.at("port").get_to(placement.master_port);
    return agreement;
  }

  const RunOptions& options_;
  base::EventFd event_;
  mutable std::mutex mutex_;  // guards agreement_, failure_ and end_
  std::unique_ptr<Server> server_;
  std::shared_ptr<Client> client_;
  std::unique_ptr<base::HeldPort> port_;  // of node 0
  Json job_;
  std::thread agreeing_;
  std::thread waiting_;
};

Nodes::Nodes(const RunOptions& options) : state_(std::make_shared<State>(options)) {}
Nodes::~Nodes() = default;

int Nodes::event_fd() const { return state_->event().get(); }
void Nodes::drain() { state_->event().drain(); }
void Nodes::begin(int attempt) { state_->begin(attempt); }
std::optional<Agreement> Nodes::agreement() const { return state_->read(&State::agreement_); }
std::string Nodes::failure() const { return state_->read(&State::failure_); }
std::optional<AttemptOutcome> Nodes::end() const { return state_->read(&State::end_); }
void Nodes::tell_failure(const AttemptOutcome& outcome) { state_->tell(outcome.attempt, outcome); }
void Nodes::tell_success(int attempt) { state_->tell_success(attempt); }

}  // namespace lockstep::launch
