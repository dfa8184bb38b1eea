#pragma once
#include <memory>

#include "base/deadline.h"
#include "comm/exchange.h"
#include "host/recorder.h"
#include "host/turns.h"

namespace lockstep::comm {

/// Makes sure that all members of a group are in the same call before any data move, whatever the
/// backend. Members of one host meet in shared memory; others by the store. By one thread at a
/// time.
class Agreement {
 public:
  /// `turns` are the group's when all members share memory, else null.
  Agreement(std::shared_ptr<host::Turns> turns, Exchange exchange);

  /// Collective. Returns when every member has come with an equal call. Throws Disagreement where
  /// the recorders tell the rest, or MismatchError with both calls; both on every member.
  void reach(const host::CallRecord& call, base::Deadline deadline);

  /// Local. The same for a backend that meets in the turns itself: its next ones belong to `call`.
  void prepare(const host::CallRecord& call, base::Deadline deadline);

 private:
  std::shared_ptr<host::Turns> turns_;
  Exchange exchange_;
};

}  // namespace lockstep::comm
