#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/file.h"
#include "base/held_port.h"
#include "base/host.h"
#include "lockstep/error.h"
#include "rendezvous/child.h"
#include "rendezvous/meet.h"
#include "rendezvous/notice.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

struct FileMeetTest : ::testing::Test {
  base::TemporaryFolder folder;
  fs::path path = folder.path() / "meet";
  std::string place = "file://" + path.string();

  void write(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }
  std::string content() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
  }

  /// What the file of a job on this host would say, that listened on `port`.
  static Notice notice(std::uint16_t port) {
    return notice_here(member(0, 2, "job-old"), "0123456789abcdef", port, false);
  }
  void expect_all_meet() const {
    for (const auto& outcome : meet_all(place, {member(0, 2), member(1, 2)}, soon()))
      EXPECT_EQ(outcome.kind, "met") << outcome.message;
  }
  /// Both ranks' errors, which must come within a second.
  std::string refusal(int rank) const {
    std::string message;
    EXPECT_LT(time_of([&] {
                message =
                    message_of<RendezvousError>([&] { meet(place, member(rank, 2), soon()); });
              }),
              1s);
    return message;
  }
};

}  // namespace

TEST_F(FileMeetTest, RanksMeetAndTheFileGoesWithTheStore) {
  for (int run = 0; run < 3; ++run) {
    expect_all_meet();
    EXPECT_EQ(files(), 0u);
  }
}

TEST_F(FileMeetTest, AJobWithoutATokenIsGuardedByTheFile) {
  Member zero = member(0, 2);
  Member one = member(1, 2);
  zero.token = one.token = "";
  auto serving = std::async(std::launch::async, [&] { return meet(place, zero, soon()); });
  const Meeting joined = meet(place, one, soon());
  const Meeting served = serving.get();
  EXPECT_EQ(fs::status(path).permissions() & fs::perms::all,
            fs::perms::owner_read | fs::perms::owner_write);
  const Endpoint port = Endpoint::tcp("127.0.0.1", served.server->endpoint().port);
  EXPECT_THAT(message_of<RendezvousError>([&] { Client::connect(port, one, soon()); }),
              HasSubstr("wrong token"));
}

TEST_F(FileMeetTest, TheFileDoesNotHoldTheJobsOwnToken) {
  const Server server(loopback(), member(0, 1));
  const Meeting meeting = meet(place, member(0, 1), soon());
  EXPECT_EQ(content().find("secret"), std::string::npos);
}

TEST_F(FileMeetTest, Row20ALiveOwnerIsNotReplaced) {
  const Meeting first = meet(place, member(0, 1, "job-A"), soon());
  const std::string before = content();
  EXPECT_THAT(refusal(0), AllOf(HasSubstr("is in use by job 'job-A', served by rank 0"),
                                HasSubstr("pid " + std::to_string(base::this_pid()))));
  EXPECT_THAT(refusal(1), AllOf(HasSubstr("this is the store of job 'job-A'"),
                                HasSubstr("belongs to job 'job-1'")));
  EXPECT_EQ(content(), before);
  first.client->set("k", "undisturbed");
}

TEST_F(FileMeetTest, Row20FileOfADeadProcessIsReclaimed) {
  const base::HeldPort port;
  Notice dead = notice(port.number());
  dead.start_time -= 1;  // another process of this pid, before
  write(dead.json());
  expect_all_meet();
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileMeetTest, Row20FileFromBeforeTheLastBootIsReclaimed) {
  const base::HeldPort port;
  Notice dead = notice(port.number());
  dead.boot_id = "an earlier one";
  write(dead.json());
  expect_all_meet();
}

TEST_F(FileMeetTest, Row20FileOfAnotherHostWhosePortsAreClosedIsReclaimed) {
  const base::HeldPort port;
  Notice dead = notice(port.number());
  dead.boot_id = "of another machine";
  dead.owner.host = "elsewhere";
  dead.addresses = {*base::SocketAddress::ip("127.0.0.1", port.number())};
  for (const auto& [interface, address] : base::interface_addresses()) {
    auto own = address;
    own.set_port(port.number());
    if (!own.is_loopback() && own.family() == AF_INET) dead.addresses = {own};
  }
  if (dead.addresses.front().is_loopback()) GTEST_SKIP() << "this host has no address but loopback";
  write(dead.json());
  expect_all_meet();
}

TEST_F(FileMeetTest, Row20AStaleFileWhosePortAnotherJobHasNowIsReclaimed) {
  const Server other(Endpoint::tcp("0.0.0.0", 0), member(0, 2, "job-other"));
  Notice dead = notice(other.endpoint().port);
  dead.start_time -= 1;
  write(dead.json());
  expect_all_meet();
}

TEST_F(FileMeetTest, Row20AnOwnerWhoseHostIsSilentMayBeAlive) {
  Notice far = notice(9);
  far.boot_id = "of another machine";
  far.owner.host = "elsewhere";
  far.addresses.clear();
  write(far.json());
  EXPECT_THAT(refusal(0),
              AllOf(HasSubstr("may be in use by job 'job-old'"), HasSubstr("remove the file")));
  EXPECT_EQ(content(), far.json());
}

TEST_F(FileMeetTest, Row21GarbageIsRefusedAndLeftAlone) {
  for (const std::string& garbage :
       {std::string("garbage"), std::string("{}"), std::string("{\"magic\": \"other\"}"),
        notice(1).json().substr(0, 100), std::string(100'000, 'x'), std::string(1, '\0')}) {
    write(garbage);
    for (const int rank : {0, 1}) {
      const std::string message = refusal(rank);
      EXPECT_TRUE(message.find("is not a lockstep rendezvous file") != std::string::npos ||
                  message.find("is larger than") != std::string::npos)
          << message;
    }
    EXPECT_EQ(content(), garbage);
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(FileMeetTest, Row21AnyByteOfANoticeFlippedIsRefusedOrStale) {
  const base::HeldPort port;
  Notice dead = notice(port.number());
  dead.start_time = 1;
  const std::string good = dead.json();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] ^= 0x20;
    const auto parsed = Notice::parse(bad);
    // Nothing thrown, nothing else than a notice or none.
    EXPECT_TRUE(!parsed || !parsed->json().empty());
  }
}

TEST_F(FileMeetTest, AnEmptyFileIsAsGoodAsNone) {
  write("");
  expect_all_meet();
}

TEST_F(FileMeetTest, D41OnlyRankZeroWasSeen) {
  const std::string message =
      message_of<TimeoutError>([&] { meet(place, member(0, 2), Deadline::in(300ms)); });
  EXPECT_THAT(message, AllOf(HasSubstr("only rank 0 was seen in this file"),
                             HasSubstr("is the folder shared by all hosts?"),
                             HasSubstr(path.string()), HasSubstr("missing: rank 1")));
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileMeetTest, D41NoRankZeroAppeared) {
  EXPECT_THAT(
      message_of<RendezvousError>([&] { meet(place, member(1, 2), Deadline::in(200ms)); }),
      AllOf(HasSubstr("no rank 0 appeared in " + path.string()), HasSubstr("shared by all hosts")));
  const base::HeldPort port;
  Notice dead = notice(port.number());
  write(dead.json());
  EXPECT_THAT(
      message_of<RendezvousError>([&] { meet(place, member(1, 2), Deadline::in(200ms)); }),
      AllOf(HasSubstr("no rank 0 appeared"), HasSubstr("'job-old'"), HasSubstr("does not answer")));
}

TEST_F(FileMeetTest, PathsThatCannotBeAreRefused) {
  EXPECT_THAT(message_of<UsageError>([&] { meet("file://relative/path", member(0, 2), soon()); }),
              HasSubstr("file:///PATH"));
  EXPECT_THAT(message_of<UsageError>([&] { meet("file:/tmp/x", member(0, 2), soon()); }),
              HasSubstr("file:///PATH"));
  EXPECT_THAT(
      message_of<UsageError>([&] { meet("file:///no/such/folder/x", member(1, 2), soon()); }),
      AllOf(HasSubstr("/no/such/folder"), HasSubstr("does not exist")));
  EXPECT_THAT(message_of<UsageError>([&] { meet("file:///tmp", member(0, 2), soon()); }),
              HasSubstr("is a folder"));
  EXPECT_THAT(
      message_of<RendezvousError>([&] { meet("file:///proc/self/x", member(0, 1), soon()); }),
      HasSubstr("cannot create a file in \"/proc/self\""));
}

TEST_F(FileMeetTest, TwoRankZerosAtADeadFileLeaveOneOwner) {
  const base::HeldPort port;
  Notice dead = notice(port.number());
  dead.start_time -= 1;
  for (int round = 0; round < 20; ++round) {
    write(dead.json());
    const auto outcomes = meet_all(place, {member(0, 1), member(0, 1), member(0, 1)}, soon());
    EXPECT_EQ(std::ranges::count(outcomes, "met", &Outcome::kind), 1);
    EXPECT_EQ(files(), 0u);
  }
}

TEST_F(FileMeetTest, D40EightProcessesAtOnceMeetTwentyTimes) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Child> ranks;
    for (int rank = 7; rank >= 0; --rank) ranks.emplace_back(place, rank, 8);
    for (auto& rank : ranks) EXPECT_EQ(rank.wait(soon()), 0) << rank.output();
    ASSERT_EQ(files(), 0u);
  }
}

TEST_F(FileMeetTest, D40KilledRanksDoNotPoisonTheNextStart) {
  std::vector<Child> ranks;
  // Rank 0 last, so that it is killed last: the others would else see the store lost, and end by
  // themselves.
  for (int rank = 3; rank >= 0; --rank) ranks.emplace_back(place, rank, 4, "hold");
  for (auto& rank : ranks) ASSERT_TRUE(rank.says("met 4", soon())) << rank.output();
  EXPECT_THAT(refusal(0), HasSubstr("is in use by job 'job-1'"));
  for (auto& rank : ranks) rank.signal(SIGKILL);
  for (auto& rank : ranks) EXPECT_EQ(rank.wait(soon()), 128 + SIGKILL);
  EXPECT_EQ(files(), 1u);
  expect_all_meet();
}

}  // namespace lockstep::rendezvous
