#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

const ChildProgram alone("alone", [](int, char**) {
  init_process_group();
  destroy_process_group();
  return 0;
});

Finished run_alone(const Launched::Variables& variables) {
  return Launched(Program{{this_binary(), "--child=alone"}}, variables).finish();
}

}  // namespace

TEST(LibtorchVersionTest, AnotherMinorVersionIsRefusedAtTheStart) {
  EXPECT_EQ(run_alone({}).code, 0);
  const Finished end = run_alone({{"LD_PRELOAD", LOCKSTEP_OTHER_LIBTORCH}});
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.err, testing::AllOf(testing::HasSubstr("lockstep was built against libtorch 2."),
                                      testing::HasSubstr("but libtorch 2.0 is loaded"),
                                      testing::HasSubstr("remedy: rebuild")));
}

}  // namespace lockstep::test
