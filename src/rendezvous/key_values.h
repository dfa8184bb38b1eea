#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::rendezvous {

/// The store's values, with those who wait for them. Meanings are c10d::Store's. Not thread-safe.
class KeyValues {
 public:
  /// A request that is answered when its keys are all there.
  struct Waiter {
    std::uint64_t peer = 0;
    std::uint64_t request = 0;
    std::optional<std::string> wanted;  ///< the key whose value is the answer
  };
  /// Waiters whose last key came.
  using Ready = std::vector<Waiter>;

  Ready set(const std::string& key, std::string value);
  bool can_append(const std::string& key, std::size_t size, std::size_t limit) const;
  Ready append(const std::string& key, const std::string& value);

  /// The sum, kept as decimal text; a missing key counts as 0. Nothing when the value is no number,
  /// or the sum has more than 64 bits.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t amount, Ready& ready);

  /// The value afterwards: `desired` when it was set, because the value was `expected` or both were
  /// absent (empty); else what is there, or `expected` when nothing is.
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired, Ready& ready);

  bool erase(const std::string& key) { return values_.erase(key) > 0; }
  const std::string* find(const std::string& key) const;
  bool has(const std::vector<std::string>& keys) const;
  std::size_t count() const { return values_.size(); }

  /// True when all keys are there; else the waiter is kept until they are, or until it is
  /// forgotten.
  bool wait(const std::vector<std::string>& keys, Waiter waiter);
  void forget(std::uint64_t peer, std::uint64_t request);
  void forget(std::uint64_t peer);

 private:
  struct Waiting {
    Waiter waiter;
    std::size_t missing = 0;
  };
  Ready arrived(const std::string& key);

  std::unordered_map<std::string, std::string> values_;
  // Forgetting drops the owner; the entry under its keys expires with it.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<Waiting>> waiting_;
  std::unordered_map<std::string, std::vector<std::weak_ptr<Waiting>>> by_key_;
};

}  // namespace lockstep::rendezvous
