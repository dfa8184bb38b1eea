// Jobs of several nodes: agents that meet, agree, and hear of each other's failures. Here all on
// this host; nodes_network_test.cpp has hosts made of network namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/concat.h"
#include "base/held_port.h"
#include "base/process_tree.h"
#include "base/socket.h"
#include "launch/launched.h"
#include "launch/meeting_place.h"
#include "lockstep/error.h"

namespace lockstep::test {
namespace {

using base::concat;
using base::Deadline;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

// Two agents of one job.
class Pair {
 public:
  Pair(const std::vector<std::string>& flags, const std::string& script)
      : endpoint_(concat("127.0.0.1:", port_.number())),
        first_(arguments(0, 2, flags, script)),
        second_(arguments(1, 1, flags, script)) {}

  Launched& first() { return first_; }    ///< node 0, ranks 0 and 1
  Launched& second() { return second_; }  ///< node 1, rank 2

 private:
  std::vector<std::string> arguments(int node, int workers, const std::vector<std::string>& flags,
                                     const std::string& script) const {
    std::vector<std::string> all = {"run",
                                    "--nnodes",
                                    "2",
                                    "--node_rank",
                                    std::to_string(node),
                                    "--nproc_per_node",
                                    std::to_string(workers),
                                    "--rdzv_endpoint",
                                    endpoint_,
                                    "--rdzv-conf",
                                    "timeout=15"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"sh", "-c", script});
    return all;
  }

  base::HeldPort port_;  // kept, so that nobody else on this machine is given it
  std::string endpoint_;
  Launched first_;
  Launched second_;
};

launch::MeetingPlace place_of(const std::string& endpoint) {
  launch::RunOptions options;
  options.rendezvous_endpoint = endpoint;
  return launch::meeting_place(options);
}

}  // namespace

TEST(NodesTest, RanksRunOnOverNodesOfDifferentSize) {
  Pair job({},
           "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
           "$MASTER_ADDR $TORCHELASTIC_RUN_ID; "
           "echo same $MASTER_PORT $LOCKSTEP_JOB_ID $LOCKSTEP_JOB_TOKEN $LOCKSTEP_RENDEZVOUS");
  const Finished first = job.first().finish();
  const Finished second = job.second().finish();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  std::vector<std::string> lines = lines_of(first.out + second.out);
  std::vector<std::string> same;
  std::erase_if(lines, [&](const std::string& line) {
    return line.starts_with("same") ? (same.push_back(line), true) : false;
  });
  EXPECT_THAT(lines,
              UnorderedElementsAre("0/3 0/2 0/2 127.0.0.1 none", "1/3 1/2 0/2 127.0.0.1 none",
                                   "2/3 0/1 1/2 127.0.0.1 none"));
  ASSERT_EQ(same.size(), 3u);
  EXPECT_EQ(same[0], same[1]);
  EXPECT_EQ(same[0], same[2]);
}

TEST(NodesTest, AFailureEndsAllNodesAndIsToldOnEach) {
  Pair job({}, "test $RANK = 2 && { echo boom >&2; exit 6; }; sleep 300");
  const Finished first = job.first().finish(Deadline::in(milliseconds(2000)));
  const Finished second = job.second().finish(Deadline::in(milliseconds(2000)));
  for (const Finished* node : {&first, &second}) {
    EXPECT_EQ(node->code, 6);
    EXPECT_THAT(node->err, HasSubstr("lockstep: rank 2 failed: ended with exit code 6"));
    EXPECT_THAT(node->err, HasSubstr("| boom"));
  }
  EXPECT_THAT(first.err, HasSubstr("stopped by the launcher: ranks 0, 1"));
}

TEST(NodesTest, Row11D54KillingALauncherEndsItsWorkersAndTheOtherNodes) {
  for (const int victim : {0, 1}) {
    Pair job({}, "echo up; sleep 300");
    ASSERT_TRUE(job.first().wait_for("up", 2));
    ASSERT_TRUE(job.second().wait_for("up"));
    Launched& killed = victim == 0 ? job.first() : job.second();
    Launched& other = victim == 0 ? job.second() : job.first();
    killed.signal(SIGKILL);
    EXPECT_EQ(killed.offspring_left(Deadline::in(milliseconds(1000))), 0u);
    const Finished end = other.finish(Deadline::in(milliseconds(2000)));
    EXPECT_NE(end.code, 0);
    EXPECT_THAT(end.err, HasSubstr(concat("node ", victim)));
    EXPECT_EQ(other.offspring().size(), 0u);
  }
}

TEST(NodesTest, KillingAnAgentIsNoticedByTheOtherNodes) {
  Pair job({}, "echo up; sleep 300");
  ASSERT_TRUE(job.first().wait_for("up", 2));
  ASSERT_TRUE(job.second().wait_for("up"));
  for (const base::ProcessEntry& entry : base::descendants(job.second().pid()))
    if (entry.parent == job.second().pid()) ::kill(entry.pid, SIGKILL);
  const Finished end = job.first().finish(Deadline::in(milliseconds(2000)));
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.err, HasSubstr("node 1 (host "));
  EXPECT_THAT(end.err, HasSubstr("is gone"));
  EXPECT_EQ(job.second().finish().code, 137);
}

TEST(NodesTest, ASignalToOneLauncherEndsTheJob) {
  Pair job({}, "echo up; sleep 300");
  ASSERT_TRUE(job.first().wait_for("up", 2));
  ASSERT_TRUE(job.second().wait_for("up"));
  job.second().signal(SIGTERM);
  EXPECT_EQ(job.second().finish().code, 143);
  EXPECT_EQ(job.first().finish().code, 143);
}

TEST(NodesTest, D60RestartsAreOfTheWholeJob) {
  Pair job({"--max-restarts", "2"},
           "echo $RANK attempt $TORCHELASTIC_RESTART_COUNT; test $LOCKSTEP_ATTEMPT = 2 && exit 0; "
           "test $RANK = 2 && exit 3; sleep 300");
  const Finished first = job.first().finish();
  const Finished second = job.second().finish();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  for (const char* line : {"0 attempt 2", "1 attempt 2"}) EXPECT_THAT(first.out, HasSubstr(line));
  EXPECT_THAT(second.out, HasSubstr("2 attempt 2"));
}

TEST(NodesTest, Row12MissingNodesAreNamed) {
  const base::HeldPort port;
  const std::string endpoint = concat("127.0.0.1:", port.number());
  const Finished alone = lockstep({"run", "--nnodes", "3", "--node-rank", "0", "--rdzv-endpoint",
                                   endpoint, "--rdzv-conf", "timeout=1", "true"});
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.err, HasSubstr("missing: rank"));
  EXPECT_LT(alone.seconds, 3);
}

TEST(NodesTest, D42AForeignListenerAtTheMeetingPlaceIsNamed) {
  const base::SocketResult stranger =
      base::open_listener(base::SocketAddress::ip("127.0.0.1", 0).value());
  ASSERT_TRUE(stranger.fd);
  const std::string endpoint = base::bound_address(stranger.fd.get()).text();
  const Finished run =
      lockstep({"run", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", endpoint, "true"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("in use by another program"));
  EXPECT_LT(run.seconds, 6);
}

TEST(NodesTest, ASignalEndsTheWaitForOtherNodes) {
  const base::HeldPort port;
  const std::string endpoint = concat("127.0.0.1:", port.number());
  Launched alone({"run", "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", endpoint, "true"},
                 {{"LOCKSTEP_LOG", "info"}});
  ASSERT_TRUE(alone.wait_for("waiting for the other nodes"));
  alone.signal(SIGTERM);
  EXPECT_EQ(alone.finish(Deadline::in(milliseconds(2000))).code, 143);
}

TEST(MeetingPlaceTest, EndpointsOfEveryForm) {
  EXPECT_EQ(place_of("10.192.2.1:62111").host, "10.192.2.1");
  EXPECT_EQ(place_of("10.192.2.1:62111").port, 62111);
  EXPECT_EQ(place_of("node0").port, 29400);
  EXPECT_EQ(place_of("[fd00::1]:29500").host, "fd00::1");
  EXPECT_EQ(place_of("[fd00::1]:29500").port, 29500);
  EXPECT_EQ(place_of("fd00::1").host, "fd00::1");
  for (const char* wrong :
       {"node0:", ":29500", "node0:http", "[fd00::1", "[fd00::1]29500", "node0:70000"})
    EXPECT_THROW(place_of(wrong), UsageError) << wrong;
  launch::RunOptions options;
  options.master_address = "10.0.0.7";
  EXPECT_EQ(launch::meeting_place(options).port, 29500);
  options.master_port = static_cast<std::uint16_t>(1234);
  EXPECT_EQ(launch::meeting_place(options).port, 1234);
}

}  // namespace lockstep::test
