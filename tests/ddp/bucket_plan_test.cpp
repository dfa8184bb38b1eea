#include "ddp/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::ddp {

using testing::ElementsAre;

TEST(BucketPlanTest, FillsInReverseWithASmallFirstBucket) {
  const std::vector<PlanItem> items(6, {.bytes = 10});
  EXPECT_THAT(plan_buckets(items, 10, 20),
              ElementsAre(ElementsAre(5), ElementsAre(4, 3), ElementsAre(2, 1), ElementsAre(0)));
}

TEST(BucketPlanTest, KindsNeverShareABucket) {
  const std::vector<PlanItem> items = {{10, 0}, {10, 1}, {10, 0}, {10, 1}};
  EXPECT_THAT(plan_buckets(items, 100, 100), ElementsAre(ElementsAre(2, 0), ElementsAre(3, 1)));
}

TEST(BucketPlanTest, OneLargeParameterHasABucketOfItsOwn) {
  EXPECT_THAT(plan_buckets({{5, 0}, {1000, 0}, {5, 0}}, 1, 50),
              ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(plan_buckets({}, 1, 1), ElementsAre());
}

}  // namespace lockstep::ddp
