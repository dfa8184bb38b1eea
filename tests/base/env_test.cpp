#include "base/env.h"

#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep::base {

TEST(EnvTest, NumbersAreWholeOrRefusedByName) {
  const Env env({{"RANK", "3"}, {"BAD", "3x"}, {"EMPTY", ""}, {"HUGE", "99999999999999999999"}});
  EXPECT_EQ(env.number("RANK"), 3);
  EXPECT_EQ(env.number("EMPTY"), std::nullopt);
  EXPECT_EQ(env.number("ABSENT"), std::nullopt);
  for (const char* name : {"BAD", "HUGE"}) {
    try {
      env.number(name);
      FAIL() << name;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(EnvTest, FlagsAreYesNoOrRefused) {
  const Env env({{"A", "1"}, {"B", "false"}, {"C", "maybe"}});
  EXPECT_TRUE(env.flag("A", false));
  EXPECT_FALSE(env.flag("B", true));
  EXPECT_TRUE(env.flag("ABSENT", true));
  EXPECT_THROW(env.flag("C", true), UsageError);
}

}  // namespace lockstep::base
