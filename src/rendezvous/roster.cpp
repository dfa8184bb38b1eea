#include "rendezvous/roster.h"

#include <algorithm>

#include "base/concat.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;

const char* went(Departure how) { return how == Departure::kLeft ? "left" : "was lost"; }

// Takes the same time for every wrong token of the right length.
bool same_secret(const std::string& mine, const std::string& theirs) {
  unsigned difference = mine.size() != theirs.size();
  for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i)
    difference |= static_cast<unsigned char>(mine[i]) ^ static_cast<unsigned char>(theirs[i]);
  return difference == 0;
}

}  // namespace

std::optional<Roster::Refusal> Roster::refusal(const Member& newcomer) const {
  if (newcomer.job_id != host_.job_id) {
    return Refusal{
        .failure = {
            .happened =
                concat("this is the store of job '", host_.job_id, "', served by ", host_.text(),
                       "; this process belongs to job '", newcomer.job_id, "': ", newcomer.text()),
            .remedy =
                "give each job its own port or file, and all ranks of one job the same job id"}};
  }
  if (newcomer.attempt != host_.attempt) {
    const bool newer = newcomer.attempt > host_.attempt;
    return Refusal{
        .failure = {.happened = concat("this is the store of attempt ", host_.attempt, " of job '",
                                       host_.job_id, "', served by ", host_.text(), "; ",
                                       newcomer.text(), " belongs to attempt ", newcomer.attempt),
                    .remedy = newer ? "end what is left of the earlier attempt"
                                    : "end this process: its attempt is over"},
        .transient = newer};
  }
  if (!same_secret(host_.token, newcomer.token)) {
    return Refusal{
        .failure = {
            .happened =
                concat("wrong token: ", newcomer.text(), " does not hold the secret of job '",
                       host_.job_id, "', served by ", host_.text()),
            .remedy = "start all ranks by one launcher, or give them the same LOCKSTEP_JOB_TOKEN"}};
  }
  if (auto wrong = wrong_settings(newcomer)) return wrong;
  const auto owner = entries_.find(newcomer.rank);
  if (owner != entries_.end()) return taken(newcomer, owner->second);
  return std::nullopt;
}

std::optional<Roster::Refusal> Roster::wrong_settings(const Member& newcomer) const {
  // Once all are there a stray process is only its own trouble.
  const bool ends_meeting = !complete();
  if (newcomer.world_size != host_.world_size) {
    return Refusal{.failure = {.happened = concat("the world sizes differ: ", host_.text(),
                                                  " says ", host_.world_size, ", ", newcomer.text(),
                                                  " says ", newcomer.world_size),
                               .remedy = "start all ranks with the same world size"},
                   .ends_meeting = ends_meeting};
  }
  if (newcomer.rank < 0 || newcomer.rank >= host_.world_size) {
    return Refusal{
        .failure = {.kind = Failure::kUsage,
                    .happened = concat(newcomer.text(), " is outside the world of ",
                                       host_.world_size, " that ", host_.text(), " serves"),
                    .remedy =
                        concat("give each process its own rank from 0 to ", host_.world_size - 1)},
        .ends_meeting = ends_meeting};
  }
  return std::nullopt;
}

Roster::Refusal Roster::taken(const Member& newcomer, const Member& owner) const {
  std::string since;
  for (const auto& [member, how] : departed_)
    if (member.rank == owner.rank) since = concat(", which ", went(how));
  return {{.happened = concat("rank ", owner.rank, " is already taken by pid ", owner.pid,
                              " on host ", owner.host, since, ": pid ", newcomer.pid, " on host ",
                              newcomer.host, " cannot join"),
           .remedy = since.empty() ? "give each process its own rank"
                                   : "restart the whole job: a rank joins once in each attempt"}};
}

void Roster::join(const Member& member) {
  Member& entry = entries_[member.rank];
  entry = member;
  entry.token.clear();
}

void Roster::depart(int rank, Departure how) {
  const auto entry = entries_.find(rank);
  if (entry != entries_.end()) departed_.push_back({entry->second, how});
}

std::vector<Member> Roster::members() const {
  std::vector<Member> members;
  members.reserve(entries_.size());
  for (const auto& [rank, member] : entries_) members.push_back(member);
  return members;
}

std::string Roster::missing_ranks() const {
  std::string list;
  std::size_t named = 0;
  constexpr std::size_t kNamed = 16;
  const std::size_t missing = static_cast<std::size_t>(std::max(host_.world_size, 0)) - joined();
  for (int rank = 0; rank < host_.world_size && named < kNamed; ++rank) {
    if (entries_.contains(rank)) continue;
    list += concat(named++ == 0 ? "" : ", ", rank);
  }
  if (missing > named) list += concat(" and ", missing - named, " more");
  return list;
}

Failure Roster::missing() const {
  return {.kind = Failure::kTimeout,
          .happened = concat(joined(), " of ", host_.world_size, " ranks have joined ",
                             host_.text(), "; missing: rank ", missing_ranks()),
          .remedy =
              "see whether the missing ranks were started and what they print, or raise the time "
              "limit"};
}

std::optional<Failure> Roster::broken() const {
  if (departed_.empty() || complete()) return std::nullopt;
  const auto& [member, how] = departed_.front();
  return Failure{.kind = Failure::kPeerLost,
                 .happened = concat(member.text(), " ", went(how),
                                    " before all had joined; missing: rank ", missing_ranks()),
                 .remedy = concat("look at the output of rank ", member.rank),
                 .peer = member.rank};
}

}  // namespace lockstep::rendezvous
