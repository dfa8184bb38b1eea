#pragma once
#include <cstddef>
#include <vector>

namespace lockstep::ddp {

/// What the plan needs to know of one parameter.
struct PlanItem {
  std::size_t bytes = 0;
  int kind = 0;  ///< parameters of one bucket share it: dtype and device
};

/// Groups parameters into buckets: in reverse order of registration, which is about the order in
/// which backward finishes them (Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3). A
/// bucket is closed once it has reached its cap, so the last parameter may pass it. Returns the
/// parameters' indices by bucket; buckets are in the order in which they fill.
std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<PlanItem>& items,
                                                   std::size_t first_cap_bytes,
                                                   std::size_t cap_bytes);

}  // namespace lockstep::ddp
