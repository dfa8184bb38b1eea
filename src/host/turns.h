#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "host/rounds.h"
#include "host/table.h"
#include "lockstep/error.h"

namespace lockstep::host {

/// The members' digests of one turn were not all equal: they are in different calls. What went
/// wrong in words is told by whoever knows what the digests stand for.
class Disagreement : public InternalError {
 public:
  Disagreement();
};

/// Rounds whose waits end: by the deadline, by a member that is gone, by a digest that differs.
/// One thread at a time; `rounds()` for its calls that any thread may make.
class Turns {
 public:
  /// Called during a wait each time another `interval` has passed, with the members that are
  /// waited for.
  using Notice = std::function<void(const std::vector<int>& missing, std::chrono::seconds waited)>;

  /// `names`: the numbers by which messages and notices tell of the members. `interval` 0: no
  /// notices.
  Turns(std::unique_ptr<Table> table, int rank, std::vector<int> names, bool crowded,
        std::chrono::seconds interval, Notice notice);

  int rank() const { return rounds_.rank(); }
  int size() const { return rounds_.size(); }
  Rounds& rounds() { return rounds_; }
  Table& table() { return *table_; }

  /// What the turns up to the next `begin` belong to.
  void begin(std::uint64_t digest, base::Deadline deadline) {
    digest_ = digest;
    deadline_ = deadline;
    claimed_ = false;
  }

  /// Whether `begin` was called since the last claim.
  bool claim() { return !std::exchange(claimed_, true); }

  /// Comes to the next turn and waits until all have. Throws Disagreement on every member when not
  /// all came with one digest; TimeoutError naming the missing, after which the turn can still
  /// complete: the next one begins by waiting for it; PeerLost when a missing member has left or
  /// `abort` was called; InternalError when one could not go on.
  void take(Place place = 0);

  /// Collective. Whether `yes` holds on every member.
  bool ask(bool yes);

  /// Where a member's data lie, as it told in the turn just taken.
  Place place_of(int rank) const { return rounds_.post_of(rank).place; }

  /// Who has not come to the turn that was given up, by name.
  std::vector<int> missing() const;

  /// What each member has told as its digest in the turn just taken.
  bool agrees(int rank) const { return rounds_.post_of(rank).digest == digest_; }

 private:
  void wait();

  std::unique_ptr<Table> table_;
  Rounds rounds_;
  std::vector<int> names_;
  std::chrono::seconds interval_;
  Notice notice_;
  std::uint64_t digest_ = 0;
  base::Deadline deadline_ = base::Deadline::in({});
  bool claimed_ = true;
  bool unfinished_ = false;  ///< the last wait was given up
};

}  // namespace lockstep::host
