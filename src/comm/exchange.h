#pragma once
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lockstep::comm {

/// Rounds in which every member of a group posts a text in the store and reads everyone's.
/// Not thread-safe; each member makes the rounds in the same order.
class Exchange {
 public:
  Exchange(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  /// Every member's text, by rank. At the limit throws TimeoutError naming the members that have
  /// not posted.
  std::vector<std::string> all_gather(const std::string& mine, std::chrono::milliseconds limit);

  /// Returns when every member has called it.
  void barrier(std::chrono::milliseconds limit);

 private:
  void post_and_wait(const std::string& mine, std::chrono::milliseconds limit);
  std::string key(std::uint64_t round, int rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::comm
