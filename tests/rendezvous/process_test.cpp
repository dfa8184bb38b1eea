#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/held_port.h"
#include "rendezvous/child.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
using namespace test;
using ::testing::HasSubstr;

namespace {

struct ProcessTest : ::testing::Test {
  base::HeldPort port;
  std::string place = "tcp://127.0.0.1:" + std::to_string(port.number());
};

}  // namespace

TEST_F(ProcessTest, Row1AKilledRankIsToldAsLostAtOnce) {
  Child zero(place, 0, 3, "hold");
  Child one(place, 1, 3, "hold");
  Child two(place, 2, 3, "hold");
  for (Child* rank : {&zero, &one, &two})
    ASSERT_TRUE(rank->says("ready", soon())) << rank->output();
  two.signal(SIGKILL);
  EXPECT_LT(time_of([&] {
              EXPECT_TRUE(zero.says("2 is lost", soon())) << zero.output();
              EXPECT_TRUE(one.says("2 is lost", soon())) << one.output();
            }),
            500ms);
}

TEST_F(ProcessTest, AnEndWithoutGoodbyeIsALoss) {
  Child zero(place, 0, 2, "hold");
  Child one(place, 1, 2, "vanish");
  EXPECT_TRUE(zero.says("1 is lost", soon())) << zero.output();
  EXPECT_EQ(one.wait(soon()), 0);
}

TEST_F(ProcessTest, Row12AKilledServerEndsEveryCallAtOnceNamingIt) {
  Child zero(place, 0, 2, "hold");
  Child one(place, 1, 2, "hold");
  ASSERT_TRUE(zero.says("ready", soon())) << zero.output();
  ASSERT_TRUE(one.says("ready", soon())) << one.output();
  zero.signal(SIGKILL);
  EXPECT_LT(time_of([&] { EXPECT_EQ(one.wait(soon()), 1); }), 1s);
  EXPECT_THAT(one.output(), HasSubstr("store lost: rank 0 (host "));
  EXPECT_THAT(one.output(), HasSubstr("0 is lost"));
}

TEST_F(ProcessTest, D37RankZeroMayEndFirst) {
  Child zero(place, 0, 2);
  Child one(place, 1, 2);
  EXPECT_EQ(zero.wait(soon()), 0) << zero.output();
  EXPECT_EQ(one.wait(soon()), 0) << one.output();
}

}  // namespace lockstep::rendezvous
