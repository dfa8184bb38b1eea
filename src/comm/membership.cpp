#include "comm/membership.h"

#include <algorithm>

namespace lockstep::comm {

std::string Loss::text() const {
  return member.text() + (how == rendezvous::Departure::kLost ? " is gone" : " has left the group");
}

void Membership::record(const Loss& loss) {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    losses_.push_back(loss);
    std::erase_if(listeners_, [](const auto& listener) { return listener.expired(); });
    for (const auto& listener : listeners_)
      if (auto alive = listener.lock()) listeners.push_back(std::move(alive));
  }
  changed_.notify_all();
  for (const auto& listener : listeners) (*listener)(loss);
}

std::optional<Loss> Membership::find_locked(const std::vector<int>& ranks) const {
  std::optional<Loss> left;
  for (const Loss& loss : losses_) {
    if (std::find(ranks.begin(), ranks.end(), loss.member.rank) == ranks.end()) continue;
    if (loss.how == rendezvous::Departure::kLost) return loss;
    if (!left) left = loss;
  }
  return left;
}

std::optional<Loss> Membership::find(const std::vector<int>& ranks) const {
  const std::lock_guard lock(mutex_);
  return find_locked(ranks);
}

std::optional<Loss> Membership::wait_for(const std::vector<int>& ranks,
                                         base::Deadline deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.time(), [&] { return find_locked(ranks).has_value(); });
  return find_locked(ranks);
}

std::shared_ptr<void> Membership::subscribe(Listener listener) {
  auto owned = std::make_shared<Listener>(std::move(listener));
  const std::lock_guard lock(mutex_);
  listeners_.push_back(owned);
  return owned;
}

}  // namespace lockstep::comm
