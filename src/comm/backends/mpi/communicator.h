#pragma once
#include <any>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/backends/mpi/runtime.h"

namespace lockstep::comm::mpi {

/// Some ranks of MPI_COMM_WORLD that communicate. Thread-safe as far as MPI lets threads in.
class Communicator {
 public:
  /// Blocks until all of `ranks`, which have distinct numbers in MPI_COMM_WORLD, have called it
  /// with the same list and tag.
  Communicator(const std::vector<int>& ranks, int tag);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes all waits here end with an error, those to come as well.
  void stop() noexcept { stopped_ = true; }

 private:
  friend class Operation;

  Runtime& runtime_;
  Members* members_ = nullptr;
  std::atomic<bool> stopped_{false};
  std::atomic<const char*> unfinished_{nullptr};  ///< an operation that was given up
};

/// One collective or message: some calls that start transfers, then a wait for all of them.
class Operation {
 public:
  /// `name` says in errors what it is; `buffers` keeps alive the about `bytes` that MPI reads and
  /// writes. Throws UsageError when an earlier operation was given up: what comes next would meet
  /// its remains.
  Operation(std::shared_ptr<Communicator> communicator, const char* name, std::int64_t bytes,
            std::any buffers);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Starts what `function`, of the module's, does with its further arguments.
  template <class Function, class... Arguments>
  void start(Function Module::*function, Arguments... arguments) {
    communicator_->runtime_.call(name_, [&](const Module& module) {
      return (module.*function)(communicator_->members_, transfer_, arguments...);
    });
  }

  /// Asks MPI, once.
  bool done();

  /// Waits for the end. Throws TimeoutError after `limit`, std::runtime_error when stopped,
  /// MismatchError for a message of a wrong size, InternalError.
  void wait(std::chrono::milliseconds limit);

 private:
  std::shared_ptr<Communicator> communicator_;
  const char* name_;
  std::int64_t bytes_;
  std::any buffers_;
  Transfer* transfer_;
  bool done_ = false;
};

/// What all ranks of MPI_COMM_WORLD have to say, by rank there.
std::vector<std::string> all_gather_text(const std::string& mine, std::chrono::milliseconds limit);

}  // namespace lockstep::comm::mpi
