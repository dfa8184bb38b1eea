// Jobs of two hosts that a cable joins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/concat.h"
#include "base/env.h"
#include "base/socket.h"
#include "launch/launched.h"
#include "launch/two_hosts.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using base::Deadline;
using std::chrono::seconds;
using testing::HasSubstr;

base::SocketAddress master() {
  const base::Env env = base::Env::of_process();
  const auto port = static_cast<std::uint16_t>(env.number("MASTER_PORT").value_or(0));
  return base::SocketAddress::ip(env.text("MASTER_ADDR").value_or(""), port).value();
}

// What Python's store does: rank 0 listens at MASTER_ADDR and MASTER_PORT, the others connect.
const ChildProgram meet_at_master("meet-at-master", [](int, char**) {
  const Deadline deadline = Deadline::in(seconds(10));
  if (base::Env::of_process().text("RANK") != "0") {
    for (;;) {
      const base::SocketResult connected = base::connect_to(master(), deadline);
      if (connected.fd) return 0;
      if (deadline.expired()) return 3;
    }
  }
  const base::SocketResult listener = base::open_listener(master());
  if (!listener.fd) return 4;
  pollfd waiting{listener.fd.get(), POLLIN, 0};
  return base::poll_until({&waiting, 1}, deadline) ? 0 : 5;
});

class TwoHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.missing().empty()) GTEST_SKIP() << hosts_.missing();
  }

  std::vector<std::string> agent(int node, const std::string& endpoint,
                                 const std::vector<std::string>& program) const {
    std::vector<std::string> all = {"run",
                                    "--nproc_per_node",
                                    "1",
                                    "--nnodes",
                                    "2",
                                    "--node_rank",
                                    std::to_string(node),
                                    "--rdzv_endpoint",
                                    endpoint,
                                    "--rdzv-conf",
                                    "timeout=20"};
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }

  TwoHosts hosts_;
};

}  // namespace

TEST_F(TwoHostsTest, TheClassicTwoMachineCommand) {
  const std::string endpoint = TwoHosts::address(0) + ":62111";
  const std::vector<std::string> program = {this_binary(), "--child=meet-at-master"};
  Launched second(agent(1, endpoint, program), {}, hosts_.on(1));
  Launched first(agent(0, endpoint, program), {}, hosts_.on(0));
  const Finished one = first.finish();
  const Finished two = second.finish();
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(two.code, 0) << two.err;
}

TEST_F(TwoHostsTest, Row16TheMasterAddressIsOfTheInterfaceThatReachesTheOthers) {
  const std::vector<std::string> program = {"sh", "-c", "echo $RANK $MASTER_ADDR"};
  Launched first(agent(0, TwoHosts::address(0) + ":62111", program), {}, hosts_.on(0));
  Launched second(agent(1, TwoHosts::address(0) + ":62111", program), {}, hosts_.on(1));
  EXPECT_EQ(first.finish().out, concat("0 ", TwoHosts::address(0), "\n"));
  EXPECT_EQ(second.finish().out, concat("1 ", TwoHosts::address(0), "\n"));
}

TEST_F(TwoHostsTest, D46TheNodeThatHasTheAddressServes) {
  const std::string endpoint = TwoHosts::address(1) + ":29900";
  const std::vector<std::string> program = {"sh", "-c", "echo $RANK $MASTER_ADDR"};
  Launched first(agent(0, endpoint, program), {}, hosts_.on(0));
  Launched second(agent(1, endpoint, program), {}, hosts_.on(1));
  EXPECT_EQ(first.finish().out, concat("0 ", TwoHosts::address(0), "\n"));
  EXPECT_EQ(second.finish().out, concat("1 ", TwoHosts::address(0), "\n"));
}

TEST_F(TwoHostsTest, AFailureOnOneHostEndsTheOther) {
  const std::string endpoint = TwoHosts::address(0) + ":62111";
  const std::vector<std::string> program = {"sh", "-c", "test $RANK = 1 && exit 7; sleep 300"};
  Launched first(agent(0, endpoint, program), {}, hosts_.on(0));
  Launched second(agent(1, endpoint, program), {}, hosts_.on(1));
  EXPECT_EQ(second.finish().code, 7);
  const Finished end = first.finish(Deadline::in(seconds(2)));
  EXPECT_EQ(end.code, 7);
  EXPECT_THAT(end.err, HasSubstr("rank 1 failed: ended with exit code 7"));
}

TEST_F(TwoHostsTest, Row10D50ACutCableEndsBothSides) {
  const std::string endpoint = TwoHosts::address(0) + ":62111";
  const std::vector<std::string> program = {"sh", "-c", "echo up; sleep 300"};
  Launched first(agent(0, endpoint, program), {}, hosts_.on(0));
  Launched second(agent(1, endpoint, program), {}, hosts_.on(1));
  ASSERT_TRUE(first.wait_for("up"));
  ASSERT_TRUE(second.wait_for("up"));
  hosts_.cut();
  const Deadline limit = Deadline::in(seconds(20));
  EXPECT_THAT(first.finish(limit).err, HasSubstr("node 1 (host "));
  EXPECT_THAT(second.finish(limit).err, HasSubstr("node 0 (host "));
}

}  // namespace lockstep::test
