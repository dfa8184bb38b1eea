#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "comm/exchange.h"
#include "host/recorder.h"
#include "host/turns.h"

namespace lockstep::comm {

/// Where the members of a group are, counted from 0 within the group.
struct GroupHosts {
  std::vector<int> of_rank;
  int count = 0;
  int own = 0;                  ///< this rank's
  std::vector<int> neighbours;  ///< the ranks on it, this one too; the first speaks for them
  int own_rank = 0;             ///< this rank's place among them
};

/// Makes sure that all members of a group are in the same call before any data move, whatever the
/// backend. Members of one host meet in shared memory; one of each host then by the store. By one
/// thread at a time.
class Agreement {
 public:
  /// `turns`: of the members on this host; null when this is the only one, or without shared
  /// memory.
  Agreement(std::shared_ptr<host::Turns> turns, const GroupHosts& hosts,
            c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  /// Collective. Returns when every member has come with an equal call. Throws Disagreement where
  /// the recorders tell the rest, or MismatchError with both calls; both on every member.
  void reach(const host::CallRecord& call, base::Deadline deadline);

  /// Local. The same for a backend that meets in the turns itself: its next ones belong to `call`.
  void prepare(const host::CallRecord& call, base::Deadline deadline);

 private:
  bool hosts_agree(const host::CallRecord& call, base::Deadline deadline);

  std::shared_ptr<host::Turns> turns_;
  const bool one_host_;
  Exchange everyone_;                 ///< tells calls that differ
  std::optional<Exchange> speakers_;  ///< one a host; this rank may not be it
};

}  // namespace lockstep::comm
