#include "comm/progress.h"

#include "base/thread_name.h"

namespace lockstep::comm {

Progress::Progress(std::string name) : name_(std::move(name)) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->over = true;
  }
  queue_->changed.notify_all();
  if (!thread_.joinable()) return;
  // The last operation held the last reference to its group: this is the thread itself, on its way
  // out.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void Progress::run_next(Queue& queue, std::unique_lock<std::mutex>& lock) {
  const auto operation = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  queue.busy = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    operation->run();
  } catch (...) {
    error = std::current_exception();
  }
  operation->run = nullptr;  // with all that it held
  lock.lock();
  queue.busy = false;
  operation->error = error;
  operation->done = true;
  queue.changed.notify_all();
}

void Progress::serve(const std::shared_ptr<Queue>& queue, const std::string& name) {
  base::name_this_thread(name.c_str());
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->changed.wait(lock,
                        [&] { return queue->over || (!queue->busy && !queue->waiting.empty()); });
    if (queue->over) return;
    run_next(*queue, lock);
  }
}

void Progress::start(const std::shared_ptr<Operation>& operation) {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->waiting.push_back(operation);
  }
  if (!thread_.joinable())
    thread_ = std::thread([queue = queue_, name = name_] { serve(queue, name); });
  else
    queue_->changed.notify_all();
}

void Progress::finish(Operation& operation) {
  std::unique_lock lock(queue_->mutex);
  while (!operation.done) {
    if (!queue_->busy && !queue_->waiting.empty())
      run_next(*queue_, lock);
    else
      queue_->changed.wait(lock);
  }
}

bool Progress::is_done(const Operation& operation) const {
  const std::lock_guard lock(queue_->mutex);
  return operation.done;
}

void Progress::take_turn() {
  std::unique_lock lock(queue_->mutex);
  while (queue_->busy || !queue_->waiting.empty()) {
    if (!queue_->busy)
      run_next(*queue_, lock);
    else
      queue_->changed.wait(lock);
  }
  queue_->busy = true;
}

void Progress::end_turn() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->busy = false;
  }
  queue_->changed.notify_all();
}

}  // namespace lockstep::comm
