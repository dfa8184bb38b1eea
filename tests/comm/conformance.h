#pragma once
#include <vector>

#include "lockstep/comm.h"

namespace lockstep::test {

/// What every backend must do, whatever the world's size. Collective; fails the test that runs it.
struct ConformanceCase {
  const char* name;
  void (*check)(Group& group);
};

const std::vector<ConformanceCase>& conformance_cases();

}  // namespace lockstep::test
