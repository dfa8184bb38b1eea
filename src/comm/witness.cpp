#include "comm/witness.h"

#include <chrono>
#include <iomanip>
#include <sstream>

#include "base/concat.h"
#include "base/host.h"

namespace lockstep::comm {
namespace {

using base::concat;
using host::CallRecord;

constexpr std::size_t kCallsShown = 8;

std::string seconds_since(std::int64_t real_time_ns) {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << static_cast<double>(now - real_time_ns) / 1e9
       << " s";
  return std::move(text).str();
}

}  // namespace

std::string tell(const CallRecord& call) {
  const std::string text = concat(call.op, " #", call.sequence, " ",
                                  call.text().substr(std::string_view(call.op).size()));
  switch (call.state) {
    case CallRecord::State::kWaiting:
      return concat(text, ", begun ", seconds_since(call.begin_ns), " ago");
    case CallRecord::State::kDone:
      return concat(text, ", done ", seconds_since(call.end_ns), " ago");
    case CallRecord::State::kFailed:
      return concat(text, ", failed ", seconds_since(call.end_ns), " ago");
  }
  return text;
}

Witness::Witness(std::shared_ptr<World> world, std::string group, std::vector<int> world_ranks)
    : world_(std::move(world)), group_(std::move(group)), world_ranks_(std::move(world_ranks)) {}

std::shared_ptr<host::Recorder> Witness::recorder_of(int rank) const {
  const auto& recorders = world_->host_memory.recorders;
  const auto found = recorders.find(world_ranks_[static_cast<std::size_t>(rank)]);
  return found == recorders.end() ? nullptr : found->second;
}

std::optional<CallRecord> Witness::last_call(int rank) const {
  const auto recorder = recorder_of(rank);
  if (!recorder) return std::nullopt;
  const auto calls = recorder->calls();
  if (calls.empty()) return std::nullopt;
  return calls.back();
}

std::string Witness::tell_of(int rank) const {
  const int world_rank = world_ranks_[static_cast<std::size_t>(rank)];
  std::string text = concat("rank ", world_rank);
  for (const rendezvous::Member& member : world_->meeting.members) {
    if (member.rank != world_rank) continue;
    text = member.text();
    if (world_->hosts.of_rank[static_cast<std::size_t>(world_rank)] ==
        world_->hosts.of_rank[static_cast<std::size_t>(world_->identity.place.rank)])
      text += concat(", ", base::process_state(member.pid));
  }
  if (!recorder_of(rank)) return text;
  const auto call = last_call(rank);
  return call ? concat(text, "; last call: ", tell(*call)) : concat(text, "; it has made no call");
}

std::string Witness::tell_of_all(const std::vector<int>& ranks) const {
  std::string text;
  for (const int rank : ranks) text += concat("\n  ", tell_of(rank));
  return text;
}

std::string Witness::last_calls(int rank) const {
  std::string text = concat("\n  last calls of rank ", rank, ":");
  std::vector<CallRecord> calls;
  for (const CallRecord& call : recorder_of(rank)->calls())
    if (group_.ends_with(call.group)) calls.push_back(call);
  for (std::size_t i = calls.size() > kCallsShown ? calls.size() - kCallsShown : 0;
       i < calls.size(); ++i)
    text += concat("\n    #", calls[i].sequence, " ", calls[i].text());
  return text;
}

std::string Witness::disagreement(std::uint64_t sequence) const {
  std::optional<CallRecord> first;
  int first_rank = 0;
  for (int rank = 0; rank < static_cast<int>(world_ranks_.size()); ++rank) {
    const auto recorder = recorder_of(rank);
    if (!recorder) continue;
    // A rank that is out of step may be in a call of another number: then its last one.
    auto call = recorder->find(group_, sequence);
    if (!call) call = last_call(rank);
    if (!call) continue;
    if (!first) {
      first = call;
      first_rank = rank;
      continue;
    }
    if (call->digest() == first->digest()) continue;
    std::string text = concat("the ranks are in different calls: rank ", first_rank, " called ",
                              first->text(), ", rank ", rank, " called ", call->text());
    if (std::string_view(first->op) != call->op || first->sequence != call->sequence)
      text += last_calls(first_rank) + last_calls(rank);
    return text;
  }
  return "the ranks are in different calls";
}

}  // namespace lockstep::comm
