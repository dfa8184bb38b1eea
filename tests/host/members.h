#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "host/arena.h"
#include "host/turns.h"

namespace lockstep::host::test {

/// What one member of a group on this host has.
struct Member {
  int rank;
  int size;
  std::shared_ptr<Arena> arena;
  std::shared_ptr<Turns> turns;
};

/// Runs `body` as every member at once, each in a thread of its own with its own mapping of the
/// segment, as processes have it. Rethrows the first error.
inline void on_members(int size, const std::function<void(Member&)>& body,
                       std::chrono::seconds interval = {}, Turns::Notice notice = {}) {
  const auto made = Segment::create(size, "test");
  const auto first = std::make_shared<Arena>(made, 0);
  const Place place = Table::create(first, size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto segment = rank == 0 ? made : Segment::open(made->path(), size, "test");
        const auto arena = rank == 0 ? first : std::make_shared<Arena>(segment, rank);
        const bool crowded = static_cast<int>(std::thread::hardware_concurrency()) < size;
        std::vector<int> names(static_cast<std::size_t>(size));
        std::iota(names.begin(), names.end(), 0);
        Member member{rank, size, arena,
                      std::make_shared<Turns>(std::make_unique<Table>(segment, place, rank, size),
                                              rank, std::move(names), crowded, interval, notice)};
        body(member);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

inline base::Deadline soon() { return base::Deadline::in(std::chrono::seconds(20)); }

}  // namespace lockstep::host::test
