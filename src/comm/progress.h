#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::comm {

/// One operation of a group: it blocks until it is done, or throws.
struct Operation {
  std::function<void()> run;
  bool done = false;  ///< guarded by the queue that it is in
  std::exception_ptr error;
};

/// Runs a group's operations one after the other, in the order in which they came: the order that
/// all ranks share. Those that are waited for run on the waiting thread; a thread of the queue's
/// own, made when first needed, runs what nobody waits for yet.
class Progress {
 public:
  /// `name` of the thread, at most 15 characters.
  explicit Progress(std::string name);
  /// Operations hold what they need, their group too: when it goes, none is left.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Returns at once.
  void start(const std::shared_ptr<Operation>& operation);

  /// Returns when the operation, started before, is done; what it threw stays in it.
  void finish(Operation& operation);

  bool is_done(const Operation& operation) const;

  /// Runs `operation` after all that was started, and throws what it throws.
  template <class Body>
  void run(Body&& body) {
    take_turn();
    try {
      body();
    } catch (...) {
      end_turn();
      throw;
    }
    end_turn();
  }

 private:
  struct Queue {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Operation>> waiting;
    bool busy = false;  ///< some thread runs an operation
    bool over = false;
  };

  static void run_next(Queue& queue, std::unique_lock<std::mutex>& lock);
  static void serve(const std::shared_ptr<Queue>& queue, const std::string& name);

  void take_turn();
  void end_turn();

  const std::string name_;
  /// The thread's too: it may be the one that destroys this object.
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace lockstep::comm
