#include "rendezvous/meet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/held_port.h"
#include "base/socket.h"
#include "lockstep/error.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
using namespace test;
using ::testing::HasSubstr;

namespace {

std::vector<Member> world_of(int size) {
  std::vector<Member> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(member(rank, size));
  return members;
}

void expect_all_meet(const std::string& init_method, int size = 4) {
  for (const auto& outcome : meet_all(init_method, world_of(size), soon()))
    EXPECT_EQ(outcome.kind, "met") << outcome.message;
}

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

}  // namespace

TEST(MeetTest, RanksMeetByTcp) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    const base::HeldPort port;
    expect_all_meet("tcp://" + std::string(host) + ":" + std::to_string(port.number()));
  }
}

TEST(MeetTest, RanksMeetByIPv6) {
  if (base::open_listener(*base::SocketAddress::ip("::1", 0)).error != 0)
    GTEST_SKIP() << "this host has no IPv6";
  const base::HeldPort port;
  expect_all_meet("tcp://[::1]:" + std::to_string(port.number()));
}

TEST(MeetTest, RanksMeetByUnixSocket) {
  const base::TemporaryFolder folder;
  expect_all_meet("unix:" + (folder.path() / "socket").string());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MeetTest, AWorldOfOneMeetsAtAnyFreePort) { expect_all_meet("tcp://127.0.0.1:0", 1); }

TEST(MeetTest, D34EveryRankNamesAllTheMissing) {
  const base::HeldPort port;
  const auto outcomes = meet_all("tcp://127.0.0.1:" + std::to_string(port.number()),
                                 {member(0, 5), member(1, 5), member(3, 5)}, Deadline::in(500ms));
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, "TimeoutError");
    EXPECT_THAT(outcome.happened, HasSubstr("3 of 5 ranks"));
    EXPECT_THAT(outcome.happened, HasSubstr("missing: rank 2, 4"));
    EXPECT_EQ(outcome.happened, outcomes[0].happened);
    EXPECT_LT(outcome.time, 2s);
  }
}

TEST(MeetTest, ARankThatGoesBeforeAllAreThereEndsTheWait) {
  const Server server(loopback(), member(0, 3));
  const auto zero = Client::connect(server.endpoint(), member(0, 3), soon());
  auto waiting = std::async(std::launch::async, [&] {
    return message_of<PeerLost>([&] { zero->wait_for_all(soon()); });
  });
  Client::connect(server.endpoint(), member(1, 3), soon())->leave();
  EXPECT_THAT(
      waiting.get(),
      HasSubstr("rank 1 (host host-1, pid 1001) left before all had joined; missing: rank 2"));
}

TEST(MeetTest, D37RankZeroMayLeaveFirst) {
  const base::HeldPort port;
  const std::string place = "tcp://127.0.0.1:" + std::to_string(port.number());
  auto zero = std::async(std::launch::async, [&] { meet(place, member(0, 2), soon()); });
  const Meeting one = meet(place, member(1, 2), soon());
  zero.get();
  EXPECT_EQ(one.members.size(), 2u);
  EXPECT_THAT(message_of<PeerLost>([&] { one.client->set("k", "v"); }),
              HasSubstr("rank 0 (host host-0, pid 1000)"));
}

TEST(MeetTest, AServerTakesOverABoundSocket) {
  for (const bool listens : {false, true}) {
    base::Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
    const auto address = *base::SocketAddress::ip("127.0.0.1", 0);
    ASSERT_EQ(::bind(fd.get(), address.raw(), address.size()), 0);
    if (listens) {
      ASSERT_EQ(::listen(fd.get(), 1), 0);
    }
    const Server server(std::move(fd), member(0, 1));
    EXPECT_NE(server.endpoint().port, 0);
    EXPECT_EQ(Client::connect(server.endpoint(), member(0, 1), soon())->wait_for_all(soon()).size(),
              1u);
  }
  EXPECT_THROW(Server(base::Fd(::socket(AF_INET, SOCK_DGRAM, 0)), member(0, 1)), UsageError);
}

TEST(MeetTest, ADeadUnixSocketIsReplacedALiveOneAndAFileAreNot) {
  const base::TemporaryFolder folder;
  const auto path = folder.path() / "socket";
  const Endpoint endpoint = Endpoint::unix_path(path);
  // What a killed server leaves: the name, with nobody behind it.
  base::open_listener(base::SocketAddress::unix_path(path)).fd.reset();
  ASSERT_TRUE(std::filesystem::exists(path));
  {
    const Server server(endpoint, member(0, 1));
    EXPECT_THAT(message_of<RendezvousError>([&] { Server(endpoint, member(0, 1, "job-B")); }),
                HasSubstr("in use by job 'job-1', served by rank 0 (host host-0, pid 1000)"));
    EXPECT_EQ(Client::connect(endpoint, member(0, 1), soon())->host().pid, 1000);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  base::AtomicFile(path).commit();
  EXPECT_THAT(message_of<RendezvousError>([&] { Server(endpoint, member(0, 1)); }),
              HasSubstr("is not a socket"));
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST(MeetTest, AHundredMeetingsLeaveNoDescriptorAndNoThread) {
  const base::HeldPort port;
  const std::string place = "tcp://127.0.0.1:" + std::to_string(port.number());
  expect_all_meet(place, 2);
  const std::size_t fds = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 100; ++i) expect_all_meet(place, 2);
  EXPECT_EQ(entries("/proc/self/fd"), fds);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

}  // namespace lockstep::rendezvous
