#pragma once
#include <any>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "comm/backends/mpi/module.h"

namespace lockstep::comm::mpi {

/// The MPI of this process: one at most, initialised once, never again after its end.
/// Thread-safe.
class Runtime {
 public:
  /// Why no MPI can serve this process, with the remedy; empty when one can. Local: it loads the
  /// module, and does not initialise MPI.
  static std::string why_not();

  /// MPI, initialised by the first call unless the program has done that. The first call blocks
  /// until all ranks that the launcher started make it. Throws UsageError (`why_not`, or MPI lets
  /// too few threads in) and InternalError.
  ///
  /// Where lockstep has initialised MPI, the end of the process ends it: exit status 0 finalizes
  /// it, which waits for all ranks; any other aborts the whole job, as nothing shall wait for a
  /// rank that failed.
  static Runtime& instance();

  int rank() const { return started_.rank; }  ///< in MPI_COMM_WORLD, as is `size`
  int size() const { return started_.size; }

  /// `function(module)`, alone where MPI wants calls one at a time. Throws InternalError with
  /// `what` and MPI's words when it returns an error code.
  template <class Function>
  void call(const char* what, Function function) {
    const int code = locked(function);
    if (code != 0) throw_error(what, code);
  }
  /// The same for functions that return no code, or one that the caller reads.
  template <class Function>
  auto locked(Function function) {
    std::unique_lock lock(one_at_a_time_, std::defer_lock);
    if (started_.threads != Threads::kAny) lock.lock();
    return function(*module_);
  }

  /// InternalError with `what` and MPI's words for the code.
  [[noreturn]] void throw_error(const char* what, int code);

  /// Keeps what an unfinished transfer may still read or write, until the process ends: MPI cannot
  /// take a collective back.
  void abandon(std::any buffers);

  /// Waiting for MPI, so that the end of the process can wait for the waiter to notice.
  class Presence {
   public:
    explicit Presence(Runtime& runtime) : runtime_(runtime) { ++runtime_.present_; }
    ~Presence() { --runtime_.present_; }
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

   private:
    Runtime& runtime_;
  };

  /// The process is about to end MPI: nobody may wait for it any more.
  bool ending() const { return ending_; }

 private:
  explicit Runtime(const Module& module);
  void require_use() const;
  void end(int status) noexcept;

  const Module* module_;
  Started started_;
  std::mutex one_at_a_time_;
  std::mutex abandoned_mutex_;
  std::vector<std::any> abandoned_;
  std::atomic<int> present_{0};
  std::atomic<bool> ending_{false};
};

}  // namespace lockstep::comm::mpi
