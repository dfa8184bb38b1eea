#include "doctor/disagreement.h"

#include <algorithm>
#include <map>

#include "base/concat.h"

namespace lockstep::doctor {
namespace {

using base::concat;

/// Ranks that made the same call.
struct Party {
  Call call;
  std::vector<int> ranks;
};

std::vector<Party> parties_of(const std::map<int, Call>& calls) {
  std::vector<Party> parties;
  for (const auto& [rank, call] : calls) {
    const auto found = std::find_if(parties.begin(), parties.end(),
                                    [&](const Party& party) { return party.call.same_as(call); });
    if (found == parties.end())
      parties.push_back({call, {rank}});
    else
      found->ranks.push_back(rank);
  }
  // The larger is taken to be right; of equal ones the one with the lowest rank.
  std::stable_sort(parties.begin(), parties.end(), [](const Party& left, const Party& right) {
    return left.ranks.size() > right.ranks.size();
  });
  return parties;
}

bool at_one_place(const Call& left, const Call& right) {
  return left.same_as(right) && left.file == right.file && left.line == right.line;
}

/// Did `second` come right behind `first` before, on any of the ranks?
bool followed(const std::vector<std::vector<Call>>& histories, const Call& first,
              const Call& second) {
  for (const std::vector<Call>& calls : histories)
    for (std::size_t i = 0; i + 1 < calls.size(); ++i)
      if (calls[i + 1].sequence < first.sequence && at_one_place(calls[i], first) &&
          at_one_place(calls[i + 1], second))
        return true;
  return false;
}

/// Rounds that repeat tell whether a call was left out or is one too many.
std::string out_of_step(const std::vector<std::vector<Call>>& histories, const Party& many,
                        const Party& few) {
  const bool left_out = followed(histories, many.call, few.call);
  const bool extra = followed(histories, few.call, many.call);
  const std::string who = ranks_text(few.ranks);
  const char* const verb = few.ranks.size() == 1 ? "is" : "are";
  if (left_out && extra)
    return concat(" ", who, " ", verb,
                  " one call out of step: earlier the two calls came by turns, so one was left out "
                  "or made twice.");
  if (left_out)
    return concat(" ", who, " ", verb, " a call short: earlier ", many.call.op, " at ",
                  many.call.place(), " came right before ", few.call.op, " at ", few.call.place(),
                  ".");
  if (extra)
    return concat(" ", who, " ", verb, " a call ahead: earlier ", few.call.op, " at ",
                  few.call.place(), " came right before ", many.call.op, " at ", many.call.place(),
                  ".");
  return "";
}

std::string what_differs(const Call& left, const Call& right) {
  if (left.op != right.op) return "the operation";
  if (left.dtype != right.dtype) return "the dtype";
  if (left.dims != right.dims) return "the shape";
  if (left.reduce_op != right.reduce_op) return "the reduction";
  if (left.root != right.root) return "the root";
  return "the tag";
}

}  // namespace

std::optional<Verdict> find_disagreement(const Story& story, const std::string& group,
                                         const std::vector<int>& members) {
  std::map<std::uint64_t, std::map<int, Call>> by_sequence;
  std::vector<std::vector<Call>> histories;
  for (const int member : members) {
    histories.push_back(story.calls(member, group));
    for (const Call& call : histories.back()) by_sequence[call.sequence].emplace(member, call);
  }
  for (const auto& [sequence, calls] : by_sequence) {
    const std::vector<Party> parties = parties_of(calls);
    if (parties.size() < 2) continue;
    Verdict verdict;
    verdict.found = true;
    verdict.text =
        concat("The ranks made different calls at number ", sequence, " of group ", group, ":");
    for (std::size_t i = 0; i < parties.size(); ++i)
      verdict.text += concat(i == 0 ? " " : ", ", ranks_text(parties[i].ranks), " called ",
                             parties[i].call.text(), " at ", parties[i].call.place());
    verdict.text +=
        concat(". What differs is ", what_differs(parties[0].call, parties[1].call), ".");
    verdict.text += out_of_step(histories, parties[0], parties[1]);
    verdict.remedy =
        "find what leads the ranks to these two places (a condition on the rank, on the data, or "
        "on an error that only one of them met) and let every rank make the same calls";
    return verdict;
  }
  return std::nullopt;
}

}  // namespace lockstep::doctor
