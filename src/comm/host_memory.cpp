#include "comm/host_memory.h"

#include <cstring>
#include <filesystem>

#include "base/concat.h"
#include "base/env.h"
#include "base/host.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

using base::concat;

constexpr const char* kFolderVariable = "LOCKSTEP_SHM_DIR";

/// Where the user wants the file of the shared memory.
std::string chosen_folder() { return base::Env::of_process().text(kFolderVariable).value_or(""); }

/// Where it lies for processes that cannot open each other's descriptors (containers with their own
/// pids).
std::string usual_folder() {
  if (std::filesystem::is_directory("/dev/shm")) return "/dev/shm";
  return std::filesystem::temp_directory_path().string();
}

struct Neighbours {
  std::vector<int> ranks;  ///< of this host, ascending; the first makes the segment
  int member = 0;          ///< this rank's place among them
};

Neighbours neighbours_of(int rank, const std::vector<int>& host_of_rank) {
  Neighbours found;
  for (std::size_t other = 0; other < host_of_rank.size(); ++other) {
    if (host_of_rank[other] != host_of_rank[static_cast<std::size_t>(rank)]) continue;
    if (static_cast<int>(other) == rank) found.member = static_cast<int>(found.ranks.size());
    found.ranks.push_back(static_cast<int>(other));
  }
  return found;
}

void place_recorder(HostMemory& memory, int rank, host::Place place) {
  memory.recorders[rank] = std::make_shared<host::Recorder>(
      std::shared_ptr<std::byte>(memory.segment, memory.segment->at(place)));
}

constexpr const char* kMade = "made ";

/// One attempt, in anonymous memory or in a file; all ranks of the world take part in its two
/// exchanges. Returns whether it went well on every host.
bool attempt(Exchange& exchange, const Neighbours& here, const std::string& folder,
             HostMemory& memory, std::chrono::milliseconds limit) {
  const int members = static_cast<int>(here.ranks.size());
  const bool wanted = members > 1 && !memory.segment;
  std::string offer, failure;
  if (wanted && here.member == 0) {
    const std::string cookie = base::random_hex(16);
    try {
      memory.segment = host::Segment::create(members, cookie, folder);
      offer = concat(cookie, " ", memory.segment->path());
    } catch (const Error& error) {
      failure = error.happened();
    }
  }
  const auto offers = exchange.all_gather(offer, limit);
  offer = offers[static_cast<std::size_t>(here.ranks.front())];
  host::Place recorder = 0;
  try {
    const std::size_t blank = offer.find(' ');
    if (wanted && here.member > 0 && blank != std::string::npos)
      memory.segment =
          host::Segment::open(offer.substr(blank + 1), members, offer.substr(0, blank));
    if (wanted && memory.segment) {
      memory.arena = std::make_shared<host::Arena>(memory.segment, here.member);
      recorder = memory.arena->allocate(host::Recorder::bytes_needed());
      std::memset(memory.segment->at(recorder), 0, host::Recorder::bytes_needed());
    }
  } catch (const Error& error) {
    failure = error.happened();
  }
  // Nothing: this rank had nothing to do; otherwise how it went.
  const auto results = exchange.all_gather(!wanted         ? ""
                                           : recorder != 0 ? concat(kMade, recorder)
                                                           : concat("no: ", failure),
                                           limit);
  bool everywhere = true;
  for (const std::string& result : results) everywhere &= !result.starts_with("no: ");
  if (!wanted) return everywhere;
  if (memory.segment) memory.segment->remove_name();
  for (const int neighbour : here.ranks) {
    const std::string& result = results[static_cast<std::size_t>(neighbour)];
    if (result.starts_with(kMade)) continue;
    memory = {};
    memory.why_not = concat("rank ", neighbour, ": ", result.substr(result.find(' ') + 1));
    return false;
  }
  for (const int neighbour : here.ranks)
    place_recorder(memory, neighbour,
                   std::stoull(results[static_cast<std::size_t>(neighbour)].substr(5)));
  return everywhere;
}

}  // namespace

HostMemory own_memory(int rank) {
  HostMemory memory;
  memory.why_not = "no other rank runs on this host";
  const std::size_t words = host::Recorder::bytes_needed() / sizeof(std::uint64_t) + 1;
  memory.recorders[rank] = std::make_shared<host::Recorder>(std::shared_ptr<std::byte>(
      reinterpret_cast<std::byte*>(new std::uint64_t[words]()),
      [](std::byte* data) { delete[] reinterpret_cast<std::uint64_t*>(data); }));
  return memory;
}

HostMemory share_host_memory(Exchange& exchange, const std::vector<int>& host_of_rank, int rank,
                             std::chrono::milliseconds limit) {
  const Neighbours here = neighbours_of(rank, host_of_rank);
  HostMemory memory;
  if (!attempt(exchange, here, chosen_folder(), memory, limit))
    attempt(exchange, here, usual_folder(), memory, limit);
  if (memory.segment) return memory;
  HostMemory own = own_memory(rank);
  if (!memory.why_not.empty()) own.why_not = memory.why_not;
  return own;
}

}  // namespace lockstep::comm
