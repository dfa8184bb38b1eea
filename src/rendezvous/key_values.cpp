#include "rendezvous/key_values.h"

#include <algorithm>
#include <set>

#include "base/env.h"

namespace lockstep::rendezvous {

KeyValues::Ready KeyValues::arrived(const std::string& key) {
  Ready ready;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return ready;
  const auto interested = std::move(found->second);
  by_key_.erase(found);
  for (const auto& entry : interested) {
    const auto waiting = entry.lock();
    if (!waiting || --waiting->missing > 0) continue;
    ready.push_back(waiting->waiter);
    waiting_.erase({waiting->waiter.peer, waiting->waiter.request});
  }
  return ready;
}

KeyValues::Ready KeyValues::set(const std::string& key, std::string value) {
  values_[key] = std::move(value);
  return arrived(key);
}

bool KeyValues::can_append(const std::string& key, std::size_t size, std::size_t limit) const {
  const std::string* value = find(key);
  return (value != nullptr ? value->size() : 0) + size <= limit;
}

KeyValues::Ready KeyValues::append(const std::string& key, const std::string& value) {
  values_[key] += value;
  return arrived(key);
}

std::optional<std::int64_t> KeyValues::add(const std::string& key, std::int64_t amount,
                                           Ready& ready) {
  std::int64_t sum = 0;
  if (const std::string* value = find(key)) {
    const auto number = base::parse_number(*value);
    if (!number) return std::nullopt;
    sum = *number;
  }
  if (__builtin_add_overflow(sum, amount, &sum)) return std::nullopt;
  ready = set(key, std::to_string(sum));
  return sum;
}

std::string KeyValues::compare_set(const std::string& key, const std::string& expected,
                                   const std::string& desired, Ready& ready) {
  const std::string* value = find(key);
  if (value == nullptr && !expected.empty()) return expected;
  if (value != nullptr && *value != expected) return *value;
  ready = set(key, desired);
  return desired;
}

const std::string* KeyValues::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool KeyValues::has(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [this](const auto& key) { return values_.contains(key); });
}

bool KeyValues::wait(const std::vector<std::string>& keys, Waiter waiter) {
  std::set<std::string> missing;
  for (const auto& key : keys)
    if (!values_.contains(key)) missing.insert(key);
  if (missing.empty()) return true;
  const std::pair owner(waiter.peer, waiter.request);
  const auto waiting = std::make_shared<Waiting>(Waiting{std::move(waiter), missing.size()});
  for (const auto& key : missing) {
    auto& interested = by_key_[key];
    std::erase_if(interested, [](const auto& entry) { return entry.expired(); });
    interested.push_back(waiting);
  }
  waiting_[owner] = waiting;
  return false;
}

void KeyValues::forget(std::uint64_t peer, std::uint64_t request) {
  waiting_.erase({peer, request});
}

void KeyValues::forget(std::uint64_t peer) {
  waiting_.erase(waiting_.lower_bound({peer, 0}), waiting_.lower_bound({peer + 1, 0}));
}

}  // namespace lockstep::rendezvous
