#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/client.h"

namespace lockstep::comm {

/// A member of the world that is gone.
struct Loss {
  rendezvous::Member member;
  rendezvous::Departure how = rendezvous::Departure::kLost;

  /// "rank 3 (host b, pid 4711) is gone" or "... has left the group".
  std::string text() const;
};

/// Who of the world is gone: filled by the store's connection, read by whoever must explain a
/// failure. Thread-safe.
class Membership {
 public:
  void record(const Loss& loss);

  /// The first lost among `ranks` (then the first that left), now or as soon as one is known before
  /// `deadline`.
  std::optional<Loss> find(const std::vector<int>& ranks) const;
  std::optional<Loss> wait_for(const std::vector<int>& ranks, base::Deadline deadline) const;

  /// `listener` runs on the recording thread for every later loss, until the returned token is
  /// destroyed.
  using Listener = std::function<void(const Loss&)>;
  std::shared_ptr<void> subscribe(Listener listener);

 private:
  std::optional<Loss> find_locked(const std::vector<int>& ranks) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Loss> losses_;
  std::vector<std::weak_ptr<Listener>> listeners_;
};

}  // namespace lockstep::comm
