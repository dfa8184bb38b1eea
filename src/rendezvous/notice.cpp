#include "rendezvous/notice.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/file.h"
#include "base/host.h"
#include "rendezvous/dial.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/failure.h"

namespace lockstep::rendezvous {
namespace fs = std::filesystem;
namespace {

using base::concat;
using base::Deadline;

constexpr const char* kMagic = "lockstep rendezvous";
constexpr int kVersion = 1;
constexpr std::size_t kFileLimit = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kLifeLimit{800};
constexpr std::chrono::milliseconds kVisitLimit{300};

std::optional<base::SocketAddress> parse_address(const std::string& text) {
  const auto endpoint = Endpoint::parse("tcp://" + text);
  return base::SocketAddress::ip(endpoint.host, endpoint.port);
}

[[noreturn]] void in_use(const fs::path& path, const Notice& notice, Life life,
                         const Member& self) {
  const std::string whose =
      concat("job '", notice.owner.job_id, "', served by ", notice.owner.text());
  if (life == Life::kAlive) {
    raise({.happened = concat(path.string(), " is in use by ", whose),
           .remedy = "give each job its own file, or end that job"},
          self, "rendezvous");
  }
  raise(
      {.happened = concat(path.string(), " may be in use by ", whose, ": its host does not answer"),
       .remedy = "if that job is over, remove the file; else give this job another one"},
      self, "rendezvous");
}

}  // namespace

std::string Notice::json() const {
  std::vector<std::string> texts;
  for (const auto& address : addresses) texts.push_back(address.text());
  return nlohmann::ordered_json{{"magic", kMagic},
                                {"version", kVersion},
                                {"job_id", owner.job_id},
                                {"attempt", owner.attempt},
                                {"world_size", owner.world_size},
                                {"host", owner.host},
                                {"pid", owner.pid},
                                {"rank", owner.rank},
                                {"token", owner.token},
                                {"instance", instance},
                                {"boot_id", boot_id},
                                {"pid_namespace", pid_namespace},
                                {"start_time", start_time},
                                {"endpoints", texts}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::optional<Notice> Notice::parse(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("magic") != kMagic || json.at("version") != kVersion) return std::nullopt;
    Notice notice;
    json.at("job_id").get_to(notice.owner.job_id);
    json.at("attempt").get_to(notice.owner.attempt);
    json.at("world_size").get_to(notice.owner.world_size);
    json.at("host").get_to(notice.owner.host);
    json.at("pid").get_to(notice.owner.pid);
    json.at("rank").get_to(notice.owner.rank);
    json.at("token").get_to(notice.owner.token);
    json.at("instance").get_to(notice.instance);
    json.at("boot_id").get_to(notice.boot_id);
    json.at("pid_namespace").get_to(notice.pid_namespace);
    json.at("start_time").get_to(notice.start_time);
    for (const auto& endpoint : json.at("endpoints")) {
      const auto address = parse_address(endpoint.get<std::string>());
      if (!address) return std::nullopt;
      notice.addresses.push_back(*address);
    }
    return notice;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

std::vector<base::SocketAddress> Notice::addresses_from_here() const {
  const bool same_machine = boot_id == base::boot_id();
  std::vector<base::SocketAddress> sorted = addresses;
  // Loopback is the surest way on one machine, and leads to somebody else on another.
  if (!same_machine)
    std::erase_if(sorted, [](const auto& address) { return address.is_loopback(); });
  std::stable_partition(sorted.begin(), sorted.end(),
                        [](const auto& address) { return address.is_loopback(); });
  return sorted;
}

Notice notice_here(const Member& owner, const std::string& instance, std::uint16_t port,
                   bool ipv6) {
  Notice notice{.owner = owner,
                .instance = instance,
                .boot_id = base::boot_id(),
                .pid_namespace = base::pid_namespace(),
                .start_time = base::process_start_time(base::this_pid()).value_or(0)};
  notice.owner.host = base::host_name();
  notice.owner.pid = base::this_pid();
  for (auto& [interface, address] : base::interface_addresses()) {
    // A link-local address names no host without the reader's own interface.
    if (address.is_link_local() || (!ipv6 && address.family() == AF_INET6)) continue;
    address.set_port(port);
    notice.addresses.push_back(address);
  }
  const auto order = [](const base::SocketAddress& address) {
    return std::pair(address.is_loopback(), address.family() == AF_INET6);
  };
  std::ranges::stable_sort(notice.addresses, {}, order);
  return notice;
}

Finding read_notice(const fs::path& path, const Member& self) {
  Finding finding;
  std::error_code error;
  finding.file = base::HeldFile(path);
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) return finding;
  if (fs::is_regular_file(status)) {
    try {
      const auto bytes = base::read_file(path, kFileLimit);
      finding.content.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const DataError& unreadable) {
      // Removed since, which is how a job ends; or too large, or closed to this user.
      if (!fs::exists(path, error)) return finding;
      raise({.happened = unreadable.happened(), .remedy = unreadable.remedy()}, self, "rendezvous");
    }
    finding.exists = true;
    finding.notice = Notice::parse(finding.content);
    if (!finding.foreign()) return finding;
  }
  raise(
      {.happened = concat(path.string(), " is not a lockstep rendezvous file; it is left as it is"),
       .remedy = "give a path that does not exist, in a folder all hosts share"},
      self, "rendezvous");
}

Life life_of(const Notice& notice, Deadline deadline) {
  const bool same_boot = notice.boot_id == base::boot_id();
  if (same_boot && notice.pid_namespace == base::pid_namespace())
    return base::process_alive(notice.owner.pid, notice.start_time) ? Life::kAlive : Life::kDead;
  bool unknown = notice.addresses.empty();
  for (const auto& address : notice.addresses_from_here()) {
    const Deadline visit =
        deadline.remaining() < kVisitLimit ? deadline : Deadline::in(kVisitLimit);
    const auto [fd, error] = base::connect_to(address, visit);
    if (error != 0) {
      unknown = unknown || error != ECONNREFUSED;
      continue;
    }
    const auto identity = probe(address, visit);
    if (identity && identity->instance == notice.instance) return Life::kAlive;
  }
  // This very host, booted again since: whatever it served is gone.
  const bool booted_since = !same_boot && notice.owner.host == base::host_name();
  return unknown && !booted_since ? Life::kUnknown : Life::kDead;
}

Publication::Publication(fs::path path, const Notice& notice) : path_(std::move(path)) {
  const std::string content = notice.json();
  try {
    while (!base::write_if_absent(path_, content)) {
      const Finding finding = read_notice(path_, notice.owner);
      if (!finding.exists) continue;
      const Life life =
          finding.notice ? life_of(*finding.notice, Deadline::in(kLifeLimit)) : Life::kDead;
      if (life != Life::kDead) in_use(path_, *finding.notice, life, notice.owner);
      if (finding.file.remove_exclusively(path_, Deadline::in(kLifeLimit))) continue;
      raise({.happened =
                 concat("cannot replace ", path_.string(), ", which is of a job that is over"),
             .remedy = "remove it, or give this job another file"},
            notice.owner, "rendezvous");
    }
  } catch (const InternalError& error) {
    raise({.happened = error.happened(), .remedy = error.remedy()}, notice.owner, "rendezvous");
  }
  file_ = base::HeldFile(path_);
}

Publication::~Publication() { file_.remove(path_); }

}  // namespace lockstep::rendezvous
