#include "comm/backends/mpi/communicator.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/concat.h"
#include "base/deadline.h"
#include "lockstep/error.h"

namespace lockstep::comm::mpi {
namespace {

using base::concat;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Less than what an int counts: MPI libraries add and multiply counts.
constexpr std::int64_t kLargestCall = std::int64_t{1} << 30;

/// How to pass the time between two questions. MPI has no event on which a process could sleep
/// together with a deadline and a word from elsewhere, so it must be asked again and again, and it
/// moves data only while it is asked: at first without a pause; then giving way to whoever wants
/// the core (another rank, perhaps the one that is awaited), for as long as the data themselves may
/// take; and then, when the other side is late rather than busy, with short sleeps, which delay
/// the end by a twentieth at most.
class Patience {
 public:
  explicit Patience(std::int64_t bytes)
      : giving_way_(milliseconds(2) + microseconds(bytes / 200)) {}

  void pause() {
    if (++questions_ < kBusyQuestions) return;
    const auto elapsed = Clock::now() - begin_;
    if (elapsed < giving_way_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(elapsed / 20, microseconds(500)));
    }
  }

 private:
  using Clock = base::Deadline::Clock;
  static constexpr int kBusyQuestions = 200;

  Clock::time_point begin_ = Clock::now();
  Clock::duration giving_way_;
  int questions_ = 0;
};

}  // namespace

Communicator::Communicator(const std::vector<int>& ranks, int tag) : runtime_(Runtime::instance()) {
  runtime_.call("MPI_Comm_create_group", [&](const Module& module) {
    return module.form(ranks.data(), static_cast<int>(ranks.size()), tag, &members_);
  });
}

Communicator::~Communicator() {
  // What was given up is still under way in it.
  if (unfinished_ != nullptr || runtime_.ending()) return;
  runtime_.locked([&](const Module& module) { module.dissolve(members_); });
}

Operation::Operation(std::shared_ptr<Communicator> communicator, const char* name,
                     std::int64_t bytes, std::any buffers)
    : communicator_(std::move(communicator)),
      name_(name),
      bytes_(bytes),
      buffers_(std::move(buffers)) {
  if (const char* earlier = communicator_->unfinished_)
    throw UsageError(concat("an earlier ", earlier,
                            " did not complete, and MPI cannot take one back: this group is over"),
                     "make a new group, or end the job");
  if (communicator_->runtime_.ending()) throw std::runtime_error("this process ends");
  transfer_ = communicator_->runtime_.locked(
      [](const Module& module) { return module.open(kLargestCall); });
}

Operation::~Operation() {
  Runtime& runtime = communicator_->runtime_;
  // A message that nobody waited for may have arrived.
  if (!done_ && !runtime.ending())
    runtime.locked([&](const Module& module) { return module.progress(transfer_, &done_); });
  if (done_) {
    runtime.locked([&](const Module& module) { module.close(transfer_); });
  } else {
    communicator_->unfinished_ = name_;
    runtime.abandon(std::move(buffers_));
  }
}

bool Operation::done() {
  if (done_) return true;
  const int code = communicator_->runtime_.locked(
      [&](const Module& module) { return module.progress(transfer_, &done_); });
  if (code == kWrongSize)
    throw MismatchError(
        concat("a message of this ", name_, " has another size than its receiver expects"),
        "sender and receiver must give the same dtype and number of elements");
  if (code != 0) communicator_->runtime_.throw_error(name_, code);
  return done_;
}

void Operation::wait(milliseconds limit) {
  const Runtime::Presence presence(communicator_->runtime_);
  const auto deadline = base::Deadline::in(limit);
  Patience patience(bytes_);
  while (!done()) {
    if (communicator_->stopped_) throw std::runtime_error("connection closed: a member is gone");
    if (communicator_->runtime_.ending()) throw std::runtime_error("this process ends");
    if (deadline.expired())
      throw TimeoutError(concat(name_, " over MPI timed out after ", limit.count(), " ms"),
                         "look at what the other ranks are doing; if they are only slow, raise the "
                         "timeout");
    patience.pause();
  }
}

std::vector<std::string> all_gather_text(const std::string& mine, milliseconds limit) {
  Runtime& runtime = Runtime::instance();
  const auto size = static_cast<std::size_t>(runtime.size());
  std::vector<int> everyone(size);
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = std::make_shared<Communicator>(everyone, 0);
  const auto gather = [&](const char* from, std::size_t bytes) {
    const auto all = std::make_shared<std::string>(size * bytes, '\0');
    const auto own = std::make_shared<std::string>(from, bytes);
    Operation operation(world, "the meeting", 0, std::make_pair(all, own));
    operation.start(&Module::all_gather, own->data(), all->data(),
                    static_cast<std::int64_t>(bytes));
    operation.wait(limit);
    return *all;
  };
  std::vector<std::uint64_t> lengths(size);
  const std::uint64_t length = mine.size();
  const std::string counted = gather(reinterpret_cast<const char*>(&length), sizeof length);
  std::copy(counted.begin(), counted.end(), reinterpret_cast<char*>(lengths.data()));
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(longest);
  const std::string texts = gather(padded.data(), longest);
  std::vector<std::string> result;
  for (std::size_t rank = 0; rank < size; ++rank)
    result.push_back(texts.substr(rank * longest, lengths[rank]));
  return result;
}

}  // namespace lockstep::comm::mpi
