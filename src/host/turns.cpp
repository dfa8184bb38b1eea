#include "host/turns.h"

#include <algorithm>

#include "base/concat.h"

namespace lockstep::host {
namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += base::concat(text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

Disagreement::Disagreement() : InternalError("the ranks are in different calls") {}

Turns::Turns(std::unique_ptr<Table> table, int rank, std::vector<int> names, bool crowded,
             std::chrono::seconds interval, Notice notice)
    : table_(std::move(table)),
      rounds_(table_->seats(), rank, table_->size(), crowded),
      names_(std::move(names)),
      interval_(interval),
      notice_(std::move(notice)) {}

std::vector<int> Turns::missing() const {
  std::vector<int> names;
  for (const int member : rounds_.missing())
    names.push_back(names_[static_cast<std::size_t>(member)]);
  return names;
}

void Turns::take(Place place) {
  if (unfinished_) wait();
  rounds_.arrive({digest_, place});
  wait();
  for (int rank = 0; rank < size(); ++rank)
    if (!agrees(rank)) throw Disagreement();
}

bool Turns::ask(bool yes) {
  constexpr Place kYes = 1, kNo = 2;
  take(yes ? kYes : kNo);
  for (int rank = 0; rank < size(); ++rank)
    if (place_of(rank) != kYes) return false;
  return true;
}

void Turns::wait() {
  auto end = deadline_.time();
  for (std::chrono::seconds waited = interval_;; waited += interval_) {
    // The clock is read only by waits that last.
    const bool notices = interval_.count() > 0 && notice_ != nullptr;
    Arrival arrival = rounds_.poll();
    if (arrival == Arrival::kLate)
      arrival =
          rounds_.wait(notices ? std::min(end, base::Deadline::Clock::now() + interval_) : end);
    if (arrival == Arrival::kAll) {
      unfinished_ = false;
      return;
    }
    unfinished_ = true;
    if (arrival == Arrival::kFailed)
      throw InternalError(base::concat("rank ", list(missing()), " could not go on"),
                          "its own error says why");
    if (arrival == Arrival::kGone || arrival == Arrival::kAborted)
      throw PeerLost("connection closed: a member is gone");
    if (base::Deadline::Clock::now() >= end)
      throw TimeoutError(
          base::concat(
              "not every rank came within ",
              std::chrono::duration_cast<std::chrono::milliseconds>(deadline_.limit()).count(),
              " ms; missing: ", list(missing())),
          "look at what those ranks are doing; if they are only slow, raise the timeout");
    notice_(missing(), waited);
  }
}

}  // namespace lockstep::host
