#include "rendezvous/key_values.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {

TEST(KeyValuesTest, AWaiterIsReadyWhenItsLastKeyComes) {
  KeyValues values;
  values.set("a", "1");
  EXPECT_TRUE(values.wait({"a", "a"}, {1, 1, {}}));
  EXPECT_FALSE(values.wait({"a", "b", "c", "b"}, {1, 2, {}}));
  EXPECT_TRUE(values.set("b", "").empty());
  EXPECT_TRUE(values.set("b", "again").empty());
  KeyValues::Ready ready;
  values.add("c", 1, ready);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].request, 2u);
  EXPECT_TRUE(values.set("c", "once").empty());
}

TEST(KeyValuesTest, AForgottenWaiterIsNotAnswered) {
  KeyValues values;
  values.wait({"k"}, {1, 1, "k"});
  values.wait({"k"}, {1, 2, "k"});
  values.wait({"k"}, {2, 1, "k"});
  values.forget(1, 1);
  values.forget(2);
  const auto ready = values.append("k", "v");
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].peer, 1u);
  EXPECT_EQ(ready[0].request, 2u);
  EXPECT_EQ(ready[0].wanted, "k");
}

TEST(KeyValuesTest, ComparingSetsWakesWaiters) {
  KeyValues values;
  values.wait({"k"}, {1, 1, "k"});
  KeyValues::Ready ready;
  EXPECT_EQ(values.compare_set("k", "", "v", ready), "v");
  EXPECT_EQ(ready.size(), 1u);
}

TEST(KeyValuesTest, AppendingHasALimit) {
  KeyValues values;
  values.set("k", "1234");
  EXPECT_TRUE(values.can_append("k", 6, 10));
  EXPECT_FALSE(values.can_append("k", 7, 10));
  EXPECT_TRUE(values.can_append("absent", 10, 10));
}

}  // namespace lockstep::rendezvous
