#pragma once
#include <cstddef>

namespace lockstep::test {

/// The largest single allocation by operator new since the last call, in bytes. Untouched memory
/// counts too, which resident sizes do not show.
std::size_t largest_allocation();

}  // namespace lockstep::test
