#include "ddp/bucket_plan.h"

#include <map>

namespace lockstep::ddp {

std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<PlanItem>& items,
                                                   std::size_t first_cap_bytes,
                                                   std::size_t cap_bytes) {
  struct Open {
    std::vector<std::size_t> members;
    std::size_t bytes = 0;
  };
  std::map<int, Open> open;
  std::vector<std::vector<std::size_t>> buckets;
  for (std::size_t i = items.size(); i-- > 0;) {
    Open& bucket = open[items[i].kind];
    bucket.members.push_back(i);
    bucket.bytes += items[i].bytes;
    if (bucket.bytes >= (buckets.empty() ? first_cap_bytes : cap_bytes)) {
      buckets.push_back(std::move(bucket.members));
      bucket = Open();
    }
  }
  for (auto& [kind, bucket] : open)
    if (!bucket.members.empty()) buckets.push_back(std::move(bucket.members));
  return buckets;
}

}  // namespace lockstep::ddp
