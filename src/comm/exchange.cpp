#include "comm/exchange.h"

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::comm {

using base::concat;

Exchange::Exchange(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size) {}

std::string Exchange::key(std::uint64_t round, int rank) const {
  return concat("exchange/", round, "/", rank);
}

void Exchange::post_and_wait(const std::string& mine, std::chrono::milliseconds limit) {
  ++round_;
  store_->set(key(round_, rank_), mine);
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(key(round_, rank));
  try {
    store_->wait(keys, limit);
  } catch (const TimeoutError&) {
    std::string missing;
    for (int rank = 0; rank < size_; ++rank)
      if (!store_->check({keys[static_cast<std::size_t>(rank)]}))
        missing += concat(missing.empty() ? "" : ", ", rank);
    throw TimeoutError(
        concat("not every rank came within ", limit.count(), " ms; missing: ", missing),
        "look at what those ranks are doing; if they are only slow, raise the timeout");
  }
  // Everybody has posted this round, so everybody has read the one before.
  if (round_ > 1) store_->deleteKey(key(round_ - 1, rank_));
}

std::vector<std::string> Exchange::all_gather(const std::string& mine,
                                              std::chrono::milliseconds limit) {
  post_and_wait(mine, limit);
  std::vector<std::string> texts;
  for (int rank = 0; rank < size_; ++rank)
    texts.push_back(rank == rank_ ? mine : store_->get_to_str(key(round_, rank)));
  return texts;
}

void Exchange::barrier(std::chrono::milliseconds limit) { post_and_wait("", limit); }

}  // namespace lockstep::comm
