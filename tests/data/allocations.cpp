#include "data/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest = 0;

}  // namespace

void* operator new(std::size_t size) {
  std::size_t seen = largest;
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {
  }
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

std::size_t lockstep::test::largest_allocation() { return largest.exchange(0); }
