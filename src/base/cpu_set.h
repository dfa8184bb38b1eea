#pragma once
#include <vector>

namespace lockstep::base {

/// The numbers of the processors that the calling thread may run on.
std::vector<int> allowed_cpus();

}  // namespace lockstep::base
