#include "lockstep/error.h"

#include <gtest/gtest.h>

namespace lockstep {

TEST(ErrorTest, TextFollowsTheGrammar) {
  const PeerLost error("peer 3 (host b, pid 4711) is gone", "look at rank 3's output",
                       {.rank = 2, .world_size = 8, .op = "all_reduce", .sequence = 1841, .backend = "shm",
                        .peer = 3, .elapsed = std::chrono::duration<double>(0.2)});
  EXPECT_STREQ(error.what(),
               "[rank 2/8] all_reduce #1841 on shm: peer 3 (host b, pid 4711) is gone, after 0.2 s\n"
               "  remedy: look at rank 3's output");
  EXPECT_EQ(error.context().peer, 3);
}

TEST(ErrorTest, UnknownPartsAreLeftOut) {
  EXPECT_STREQ(UsageError("batch is 0").what(), "batch is 0");
  EXPECT_STREQ(UsageError("batch is 0", "give at least 1", {.rank = 1}).what(),
               "[rank 1] batch is 0\n  remedy: give at least 1");
}

TEST(ErrorTest, TheFlightRecordStandsLast) {
  EXPECT_STREQ(InternalError("broken", "", {.flight_record = "/tmp/r.json"}).what(),
               "broken\n  flight record: /tmp/r.json");
}

}  // namespace lockstep
