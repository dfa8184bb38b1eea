#include "comm/agreement.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/concat.h"

namespace lockstep::comm {
namespace {

using base::concat;

constexpr const char* kUnlike = "unlike";  // in place of a digest: this host's members differ

}  // namespace

Agreement::Agreement(std::shared_ptr<host::Turns> turns, const GroupHosts& hosts,
                     c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : turns_(std::move(turns)),
      one_host_(turns_ && hosts.count == 1),
      everyone_(c10::make_intrusive<c10d::PrefixStore>("calls", store), rank, size) {
  if (one_host_) return;
  // Without shared memory every rank speaks for itself.
  const bool shared = turns_ || hosts.neighbours.size() == 1;
  if (!shared)
    speakers_.emplace(c10::make_intrusive<c10d::PrefixStore>("ranks", store), rank, size);
  else if (hosts.own_rank == 0)
    speakers_.emplace(c10::make_intrusive<c10d::PrefixStore>("hosts", store), hosts.own,
                      hosts.count);
}

void Agreement::prepare(const host::CallRecord& call, base::Deadline deadline) {
  turns_->begin(call.digest(), deadline);
}

bool Agreement::hosts_agree(const host::CallRecord& call, base::Deadline deadline) {
  std::string mine = std::to_string(call.digest());
  if (turns_) {
    prepare(call, deadline);
    try {
      turns_->take();
    } catch (const host::Disagreement&) {
      mine = kUnlike;
    }
  }
  bool agree = true;
  if (speakers_) {
    const auto digests = speakers_->all_gather(mine, deadline.remaining());
    agree = mine != kUnlike && std::all_of(digests.begin(), digests.end(),
                                           [&](const auto& digest) { return digest == mine; });
  }
  if (!turns_) return agree;
  // What the speaker has learnt, in one more turn, with a digest that no call has.
  constexpr std::uint64_t kOutcome = 2;
  turns_->begin(kOutcome, deadline);
  return turns_->ask(agree);
}

void Agreement::reach(const host::CallRecord& call, base::Deadline deadline) {
  if (one_host_) {
    prepare(call, deadline);
    turns_->take();
    return;
  }
  if (hosts_agree(call, deadline)) {
    // Turns that a backend takes inside this call are of it.
    if (turns_) prepare(call, deadline);
    return;
  }
  const auto calls =
      everyone_.all_gather(concat(call.digest(), " ", call.text()), deadline.remaining());
  const auto digest = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  const auto told = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    if (digest(calls[rank]) != digest(calls.front()))
      throw MismatchError(
          concat("the ranks are in different calls: rank 0 called ", told(calls.front()), ", rank ",
                 rank, " called ", told(calls[rank])),
          "make the same calls in the same order, with equal arguments, on every rank");
  throw InternalError("calls were found to differ, but do not");
}

}  // namespace lockstep::comm
