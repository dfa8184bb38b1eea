#include "doctor/story.h"

#include <algorithm>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::doctor {

using base::concat;

Story::Story(std::vector<FlightFile> files) : files_(std::move(files)) {
  const FlightFile& first = files_.front();
  std::map<int, const FlightFile*> seen;
  for (const FlightFile& file : files_) {
    if (file.job != first.job || file.attempt != first.attempt ||
        file.world_size != first.world_size)
      throw DataError(concat("the files are of different jobs: ", first.path.string(),
                             " is of job ", first.job, ", attempt ", first.attempt, ", ",
                             first.world_size, " ranks; ", file.path.string(), " of job ", file.job,
                             ", attempt ", file.attempt, ", ", file.world_size, " ranks"),
                      "give the files of one attempt of one job");
    const auto [twin, is_new] = seen.emplace(file.rank, &file);
    if (!is_new)
      throw DataError(concat("two files are of rank ", file.rank, ": ", twin->second->path.string(),
                             " and ", file.path.string()),
                      "give one file for each rank");
  }
  std::stable_sort(files_.begin(), files_.end(), [](const auto& left, const auto& right) {
    return left.written_ns < right.written_ns;
  });
  // The last written knows a neighbour's calls best, its own record better still.
  for (const FlightFile& file : files_) {
    std::map<int, std::vector<Call>> here;
    for (const Call& call : file.calls) here[call.rank].push_back(call);
    for (auto& [rank, calls] : here)
      if (rank == file.rank || !has_file(rank)) calls_[rank] = std::move(calls);
  }
}

const FlightFile* Story::file_of(int rank) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const FlightFile& file) { return file.rank == rank; });
  return found == files_.end() ? nullptr : &*found;
}

bool Story::has_file(int rank) const { return file_of(rank) != nullptr; }

std::vector<Call> Story::calls(int rank, const std::string& group) const {
  std::vector<Call> found;
  if (const auto all = calls_.find(rank); all != calls_.end())
    for (const Call& call : all->second)
      if (call.group == group && call.collective()) found.push_back(call);
  return found;
}

std::optional<Call> Story::last_call(int rank) const {
  const auto all = calls_.find(rank);
  if (all == calls_.end() || all->second.empty()) return std::nullopt;
  return all->second.back();
}

const Member* Story::member(int rank) const {
  const Member* known = nullptr;
  for (const FlightFile& file : files_) {
    for (const Member& member : file.members) {
      if (member.rank != rank) continue;
      if (!member.state.empty()) return &member;
      if (known == nullptr || (known->gone.empty() && !member.gone.empty())) known = &member;
    }
  }
  return known;
}

std::string Story::name(int rank) const {
  const Member* const found = member(rank);
  if (found == nullptr) return concat("rank ", rank);
  return concat("rank ", rank, " (host ", found->host, ", pid ", found->pid, ")");
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += concat(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return text;
}

}  // namespace lockstep::doctor
