#include "doctor/verdict.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "base/concat.h"
#include "doctor/disagreement.h"

namespace lockstep::doctor {
namespace {

using base::concat;

std::string seconds(std::int64_t from_ns, std::int64_t to_ns) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1)
       << (static_cast<double>(to_ns) - static_cast<double>(from_ns)) / 1e9 << " s";
  return std::move(text).str();
}

/// The failure that the first file tells of, and what is known of its group.
class Scene {
 public:
  explicit Scene(const Story& story)
      : story_(story), first_(story.files().front()), members_(first_.error.members) {
    for (const int member : members_)
      for (const Call& call : story.calls(member, first_.error.group))
        last_sequence_ = std::max(last_sequence_, call.sequence);
  }

  const std::vector<int>& members() const { return members_; }

  /// The latest call that any member began.
  std::optional<Call> front_call() const {
    for (const int member : members_) {
      const auto calls = story_.calls(member, first_.error.group);
      if (!calls.empty() && calls.back().sequence == last_sequence_) return calls.back();
    }
    return std::nullopt;
  }

  /// Members that began the latest call, without `other`.
  std::vector<int> at_front(int other) const {
    std::vector<int> found;
    for (const int member : members_)
      if (member != other && sequence_of(member) == last_sequence_) found.push_back(member);
    return found;
  }

  /// Of the rank's last call in the group; 0: none is known.
  std::uint64_t sequence_of(int rank) const {
    const auto calls = story_.calls(rank, first_.error.group);
    return calls.empty() ? 0 : calls.back().sequence;
  }

  std::uint64_t last_sequence() const { return last_sequence_; }

  /// Wrote nothing, though it may have known an error: it died or hangs.
  bool silent(int rank) const {
    if (story_.has_file(rank)) return false;
    const auto last = story_.last_call(rank);
    return !last || last->state != "failed";
  }

  /// "Its last call was all_reduce(...) at train.cpp:30, number 20 of group world, done 0.3 s
  /// before the first error".
  std::string last_call_text(int rank) const {
    const auto last = story_.last_call(rank);
    if (!last)
      return known(rank) ? "It had made no call"
                         : "Its calls are not known: no record is from its host";
    std::string text = concat("Its last call was ", last->text(), " at ", last->place(),
                              ", number ", last->sequence, " of group ", last->group);
    if (last->state == "waiting")
      return concat(text, ", begun ", seconds(last->begin_ns, first_.written_ns),
                    " before the first error and not done");
    return concat(text, ", ", last->state, " ", seconds(last->end_ns, first_.written_ns),
                  " before the first error");
  }

  /// "; ranks 0 and 1 were in all_reduce(...) at train.cpp:30, number 21".
  std::string others_text(int rank) const {
    const std::vector<int> others = at_front(rank);
    const auto call = front_call();
    if (others.empty() || !call) return "";
    return concat("; ", ranks_text(others), others.size() == 1 ? " was in " : " were in ",
                  call->text(), " at ", call->place(), ", number ", call->sequence);
  }

  /// Does any record come from the rank's host?
  bool known(int rank) const {
    const Member* const member = story_.member(rank);
    return story_.has_calls(rank) || (member != nullptr && !member->state.empty());
  }

 private:
  const Story& story_;
  const FlightFile& first_;
  const std::vector<int>& members_;
  std::uint64_t last_sequence_ = 0;
};

bool has_gone(const Story& story, int rank, const char* how) {
  for (const FlightFile& file : story.files())
    for (const Member& member : file.members)
      if (member.rank == rank && member.gone == how) return true;
  return false;
}

std::optional<Verdict> find_death(const Story& story, const Scene& scene) {
  for (const int rank : scene.members()) {
    const Member* const member = story.member(rank);
    const bool dead =
        has_gone(story, rank, "lost") ||
        (member != nullptr && member->state == "dead" && !has_gone(story, rank, "left"));
    if (!dead || !scene.silent(rank)) continue;
    return Verdict{true,
                   concat(story.name(rank), " died without an error of its own. ",
                          scene.last_call_text(rank), scene.others_text(rank), "."),
                   "look at that rank's own output, and in the kernel's log for a kill for want "
                   "of memory"};
  }
  return std::nullopt;
}

std::optional<Verdict> find_stopped(const Story& story, const Scene& scene) {
  for (const int rank : scene.members()) {
    const Member* const member = story.member(rank);
    if (member == nullptr || !scene.silent(rank)) continue;
    const bool stopped = member->state.starts_with("stopped");
    if (!stopped && !member->state.starts_with("in the kernel")) continue;
    return Verdict{
        true,
        concat("The process of ", story.name(rank), stopped ? " was " : " hung ", member->state,
               ". ", scene.last_call_text(rank), scene.others_text(rank), "."),
        stopped ? concat("somebody sent it SIGSTOP, or a debugger holds it: kill -CONT ",
                         member->pid, " lets it go on")
                : std::string("it waits for a device or a file server that does not answer; the "
                              "kernel's log may say which")};
  }
  return std::nullopt;
}

std::optional<Verdict> find_leaver(const Story& story, const Scene& scene) {
  for (const int rank : scene.members()) {
    if (!has_gone(story, rank, "left") || story.has_file(rank)) continue;
    if (scene.known(rank) && scene.sequence_of(rank) >= scene.last_sequence()) continue;
    return Verdict{true,
                   concat(story.name(rank), " ended in order while others still called. ",
                          scene.last_call_text(rank), scene.others_text(rank), "."),
                   "let every rank make the same number of calls: ranks with more batches than "
                   "others are a usual cause (a sampler that gives each the same number helps)"};
  }
  return std::nullopt;
}

std::optional<Verdict> find_straggler(const Story& story, const Scene& scene) {
  for (const int rank : scene.members()) {
    if (!scene.known(rank) || scene.sequence_of(rank) >= scene.last_sequence()) continue;
    const Member* const member = story.member(rank);
    const std::string state = member == nullptr || member->state.empty()
                                  ? ""
                                  : concat(" Its process was ", member->state, ".");
    return Verdict{
        true,
        concat(story.name(rank), " made no further calls. ", scene.last_call_text(rank),
               scene.others_text(rank), ".", state),
        concat("see what it does behind that call: gdb -p ", member == nullptr ? 0 : member->pid,
               " while it hangs; if it is only slow, raise the time limit")};
  }
  return std::nullopt;
}

Verdict nothing_differs(const Scene& scene) {
  Verdict verdict;
  const auto call = scene.front_call();
  verdict.text = "The records show no rank that differs from the others";
  if (call)
    verdict.text += concat(": all that are known were in ", call->text(), " at ", call->place(),
                           ", number ", call->sequence, " of group ", call->group);
  verdict.text += ".";
  verdict.remedy =
      "give the records of all hosts; with all of them, the error's own text says what failed";
  return verdict;
}

}  // namespace

std::string heading(const Story& story) {
  std::vector<int> ranks, unknown;
  for (const FlightFile& file : story.files()) ranks.push_back(file.rank);
  std::sort(ranks.begin(), ranks.end());
  const Scene scene(story);
  for (int rank = 0; rank < story.world_size(); ++rank)
    if (!scene.known(rank)) unknown.push_back(rank);
  const FlightFile& first = story.files().front();
  std::string text =
      concat("job ", story.job(), ", attempt ", story.attempt(), ", ", story.world_size(),
             " ranks; records of ", ranks_text(ranks), "\nfirst error: rank ", first.rank, ", ",
             first.error.kind, " in ", first.error.op, " #", first.error.sequence, " of group ",
             first.error.group);
  if (!unknown.empty())
    text += concat("\nnothing is known of ", ranks_text(unknown),
                   ": give a record of each of their hosts");
  return text;
}

Verdict judge(const Story& story) {
  for (const FlightFile& file : story.files())
    if (auto verdict = find_disagreement(story, file.error.group, file.error.members))
      return *verdict;
  const Scene scene(story);
  for (const auto find : {find_death, find_stopped, find_leaver, find_straggler})
    if (auto verdict = find(story, scene)) return *verdict;
  return nothing_differs(scene);
}

}  // namespace lockstep::doctor
