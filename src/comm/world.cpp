#include "comm/world.h"

#include <algorithm>
#include <exception>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/concat.h"
#include "base/host.h"
#include "base/log.h"
#include "base/route.h"
#include "base/user_folder.h"
#include "comm/device_backends.h"
#include "comm/exchange.h"
#include "comm/libtorch_version.h"
#include "comm/meet_through_launcher.h"
#include "comm/registry.h"
#include "comm/store.h"

namespace lockstep::comm {
namespace {

using base::concat;

rendezvous::Member member_of(const Identity& identity) {
  rendezvous::Member member;
  member.job_id = identity.job_id;
  member.token = identity.token;
  member.attempt = identity.attempt;
  member.rank = identity.place.rank;
  member.world_size = identity.place.world_size;
  member.host = base::host_name();
  member.pid = base::this_pid();
  return member;
}

constexpr std::chrono::seconds kServingLimit{3};

/// This host's address as others reach it who know the agent's, in the form that a URL takes.
std::string own_address(const std::string& agent, base::Deadline deadline) {
  const base::Resolution found = base::resolve(agent, 0, deadline);
  if (found.addresses.empty())
    throw RendezvousError(concat("cannot find ", agent, ": ", found.failure));
  const base::SocketAddress own = base::address_towards(found.addresses.front());
  return own.family() == AF_INET6 ? concat("[", own.host(), "]") : own.host();
}

/// Under torchrun the agent owns MASTER_PORT: its store tells where rank 0's own one listens.
rendezvous::Meeting meet_through_agent(const Identity& identity, base::Deadline deadline) {
  const std::size_t colon = identity.agent_store.rfind(':');
  const std::string host = identity.agent_store.substr(0, colon);
  const auto port = base::parse_number(identity.agent_store.substr(colon + 1)).value_or(0);
  const std::string key = concat("lockstep/", identity.job_id, "/", identity.attempt);
  const rendezvous::Member self = member_of(identity);
  rendezvous::Meeting meeting;
  std::string place;
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.timeout = deadline.remaining();
    const c10::intrusive_ptr<c10d::Store> agent =
        c10::make_intrusive<c10d::TCPStore>(host, options);
    if (self.rank == 0) {
      meeting.server = std::make_shared<rendezvous::Server>(
          rendezvous::Endpoint::parse(concat("tcp://", own_address(host, deadline), ":0")), self);
      agent->set(key, meeting.server->endpoint().text());
    }
    place = agent->get_to_str(key);
  } catch (const c10::Error& error) {
    throw RendezvousError(concat("torchrun's store at ", identity.agent_store,
                                 " does not answer: ", error.what_without_backtrace()),
                          "is the agent that started this process still running?");
  }
  meeting.client = rendezvous::Client::connect(rendezvous::Endpoint::parse(place), self, deadline);
  meeting.members = meeting.client->wait_for_all(deadline);
  return meeting;
}

rendezvous::Meeting meet(const Identity& identity, const std::string& init_method,
                         base::Deadline deadline) {
  if (init_method != "env://") return rendezvous::meet(init_method, member_of(identity), deadline);
  if (!identity.agent_store.empty()) return meet_through_agent(identity, deadline);
  if (identity.meeting.empty())
    return meet_through_launcher(member_of(identity), identity.place.launcher, deadline);
  if (!identity.meeting_folder.empty()) base::make_user_folder(identity.meeting_folder);
  return rendezvous::meet(identity.meeting, member_of(identity), deadline);
}

}  // namespace

bool World::one_host(const std::vector<int>& ranks) const {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return hosts.of_rank[static_cast<std::size_t>(rank)] ==
           hosts.of_rank[static_cast<std::size_t>(ranks.front())];
  });
}

World::~World() {
  if (std::uncaught_exceptions() == 0) leave();
}

void World::leave() noexcept {
  if (left_.exchange(true)) return;
  if (meeting.server) meeting.server->wait_until_alone(base::Deadline::in(kServingLimit));
  if (meeting.client) meeting.client->leave();
}

std::shared_ptr<World> make_world(const InitOptions& options) {
  check_libtorch_version();
  auto world = std::make_shared<World>();
  world->identity = detect(base::Env::of_process(), options.rank, options.world_size);
  const Identity& identity = world->identity;
  const Place& place = identity.place;
  if (!identity.warning.empty()) base::log(base::LogLevel::kWarning, identity.warning);
  if (place.rank == 0)
    base::log(base::LogLevel::kInfo,
              concat("world of ", place.world_size, " by ", place.launcher,
                     identity.evidence.empty() ? "" : " (" + identity.evidence + ")"));
  if (place.world_size == 1) {
    world->store = c10::make_intrusive<c10d::HashStore>();
    world->hosts.of_rank = {0};
    world->host_memory = own_memory(0);
    return world;
  }
  DeviceBackends::check(options.backend);  // before anybody waits for this rank
  const auto deadline = base::Deadline::in(options.join_timeout);
  world->meeting = meet(identity, options.init_method, deadline);
  world->store = c10::make_intrusive<Store>(world->meeting.client, options.timeout);
  world->meeting.client->on_departure(
      [weak = std::weak_ptr<World>(world)](const rendezvous::Member& member,
                                           rendezvous::Departure how) {
        if (const auto alive = weak.lock()) alive->membership.record({member, how});
      });
  Exchange exchange(c10::make_intrusive<c10d::PrefixStore>("hosts", world->store), place.rank,
                    place.world_size);
  world->hosts = find_hosts(exchange, place.rank, world->meeting.client->local_address(),
                            base::Env::of_process(), deadline.remaining());
  world->host_memory =
      share_host_memory(exchange, world->hosts.of_rank, place.rank, deadline.remaining());
  if (const auto inquiry = base::Env::of_process().text(base::contract::kInquiry))
    world->answerer =
        std::make_unique<Answerer>(*inquiry, place.rank, world->host_memory.recorders);
  return world;
}

}  // namespace lockstep::comm
