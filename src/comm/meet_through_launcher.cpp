#include "comm/meet_through_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/concat.h"
#include "base/host.h"
#include "base/route.h"
#include "base/user_folder.h"
#include "comm/hosts.h"
#include "comm/registry.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using base::concat;

using Gather = std::vector<std::string> (*)(const std::string&, std::chrono::milliseconds);

Gather connection_of(const std::string& launcher) {
  std::string reasons;
  for (const BackendEntry& entry : backends()) {
    if (entry.gather_before_meeting == nullptr) continue;
    const std::string reason = entry.why_not({});
    if (reason.empty()) return entry.gather_before_meeting;
    reasons += concat(" (", entry.name, ": ", reason, ")");
  }
  throw UsageError(
      concat(launcher, " gave this process a rank, but nothing says where the ranks meet", reasons),
      "set MASTER_ADDR and MASTER_PORT (the host of rank 0 and a free port on it) on every rank: "
      "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500");
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  for (const base::InterfaceAddress& entry : base::interface_addresses())
    if (!entry.address.is_loopback() && !entry.address.is_link_local())
      found.push_back(entry.address.host());
  return found;
}

/// What each rank tells before the meeting: which host it is on, and that host's addresses.
struct Whereabouts {
  std::string host;
  std::vector<std::string> addresses;

  std::string text() const {
    std::string text = host;
    for (const std::string& address : addresses) text += "\n" + address;
    return text;
  }

  static Whereabouts parse(const std::string& text) {
    Whereabouts found;
    std::istringstream lines(text);
    std::getline(lines, found.host);
    for (std::string line; std::getline(lines, line);) found.addresses.push_back(line);
    return found;
  }
};

/// This host's address as another one reaches it.
std::optional<std::string> address_towards(const Whereabouts& here, const Whereabouts& there) {
  for (const std::string& text : there.addresses) {
    // An address that both hosts have, such as a container bridge's, leads nowhere.
    if (std::find(here.addresses.begin(), here.addresses.end(), text) != here.addresses.end())
      continue;
    try {
      if (const auto target = base::SocketAddress::ip(text, 0)) {
        const base::SocketAddress own = base::address_towards(*target);
        if (!own.is_loopback() && !own.is_wildcard()) return own.host();
      }
    } catch (const InternalError&) {
      continue;  // no route: another of its addresses may have one
    }
  }
  return std::nullopt;
}

rendezvous::Endpoint place_to_serve(const Whereabouts& here,
                                    const std::vector<std::string>& texts) {
  if (const auto chosen = chosen_address(base::Env::of_process()))
    return rendezvous::Endpoint::tcp(*chosen, 0);
  bool alone = true;
  for (const std::string& text : texts) {
    const Whereabouts there = Whereabouts::parse(text);
    if (there.host == here.host) continue;
    alone = false;
    if (const auto own = address_towards(here, there)) return rendezvous::Endpoint::tcp(*own, 0);
  }
  if (!alone)
    throw RendezvousError("rank 0's host has no address by which the other hosts reach it",
                          "set MASTER_ADDR and MASTER_PORT on every rank");
  const std::string folder = concat("/tmp/lockstep-", ::geteuid());
  base::make_user_folder(folder);
  return rendezvous::Endpoint::unix_path(concat(folder, "/", base::random_hex(8)));
}

constexpr const char* kFailed = "failed ";

/// What rank 0 tells: token, place and job (each of MPICH's hosts has a name of its own for it), or
/// what went wrong, which then ends all.
std::string serve(rendezvous::Meeting& meeting, rendezvous::Member& self, const Whereabouts& here,
                  const std::vector<std::string>& texts) {
  try {
    if (self.token.empty()) self.token = base::random_hex(16);
    meeting.server = std::make_shared<rendezvous::Server>(place_to_serve(here, texts), self);
    return concat(self.token, "\n", meeting.server->endpoint().text(), "\n", self.job_id);
  } catch (const Error& error) {
    return concat(kFailed, error.happened(), "\n", error.remedy());
  }
}

}  // namespace

rendezvous::Meeting meet_through_launcher(rendezvous::Member self, const std::string& launcher,
                                          base::Deadline deadline) {
  const Gather gather = connection_of(launcher);
  const Whereabouts here{host_identity(base::Env::of_process()), own_addresses()};
  const auto texts = gather(here.text(), deadline.remaining());
  if (texts.size() != static_cast<std::size_t>(self.world_size))
    throw UsageError(concat(launcher, " started ", texts.size(),
                            " ranks, but the world shall have ", self.world_size),
                     "start as many processes as there are ranks");
  rendezvous::Meeting meeting;
  const std::string mine = self.rank == 0 ? serve(meeting, self, here, texts) : "";
  // Only rank 0 says anything, whatever its number in the launcher's eyes.
  std::string said;
  for (const std::string& text : gather(mine, deadline.remaining())) said += text;
  if (said.starts_with(kFailed)) {
    const std::size_t line = said.find('\n');
    throw RendezvousError(concat("rank 0: ", said.substr(7, line - 7)), said.substr(line + 1));
  }
  std::istringstream lines(said);
  std::string place;
  std::getline(lines, self.token);
  std::getline(lines, place);
  std::getline(lines, self.job_id);
  meeting.client = rendezvous::Client::connect(rendezvous::Endpoint::parse(place), self, deadline);
  meeting.members = meeting.client->wait_for_all(deadline);
  return meeting;
}

}  // namespace lockstep::comm
