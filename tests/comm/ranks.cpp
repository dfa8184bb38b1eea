#include "comm/ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "base/concat.h"
#include "base/file.h"

namespace lockstep::test {

void on_ranks(int size, const std::function<void(Group&)>& body, const std::string& backend,
              std::chrono::milliseconds limit) {
  const base::TemporaryFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<bool> done(static_cast<std::size_t>(size), false);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::exception_ptr error;
      try {
        InitOptions options;
        options.backend = backend;
        options.init_method = base::concat("unix:", (folder.path() / "meet").string());
        options.rank = rank;
        options.world_size = size;
        options.join_timeout = options.timeout = limit;
        Group group = join_group(options);
        body(group);
        // Nobody leaves while another may still be reading what it sent.
        group.barrier();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      errors[static_cast<std::size_t>(rank)] = error;
      done[static_cast<std::size_t>(rank)] = true;
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    const bool all = changed.wait_for(
        lock, 2 * limit, [&] { return std::find(done.begin(), done.end(), false) == done.end(); });
    if (!all) {
      for (int rank = 0; rank < size; ++rank)
        if (!done[static_cast<std::size_t>(rank)]) std::fprintf(stderr, "rank %d hangs\n", rank);
      std::abort();  // the threads cannot be joined: end the test binary, whose suite then fails
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::test
