#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "base/held_port.h"
#include "lockstep/error.h"
#include "rendezvous/child.h"
#include "rendezvous/party.h"
#include "rendezvous/server.h"

namespace lockstep::rendezvous {
namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

TEST(EnduranceTest, D40EightProcessesMeetFiftyTimesAlsoAfterAllWereKilled) {
  const base::TemporaryFolder folder;
  const std::string place = "file://" + (folder.path() / "meet").string();
  for (int round = 0; round < 50; ++round) {
    std::vector<Child> ranks;
    for (int rank = 7; rank >= 0; --rank)
      ranks.emplace_back(place, rank, 8, round % 2 == 0 ? "hold" : "leave");
    if (round % 2 == 0) {
      for (auto& rank : ranks) ASSERT_TRUE(rank.says("met 8", soon())) << rank.output();
      for (auto& rank : ranks) rank.signal(SIGKILL);
    }
    for (auto& rank : ranks)
      EXPECT_EQ(rank.wait(soon()), round % 2 == 0 ? 128 + SIGKILL : 0) << rank.output();
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(EnduranceTest, D40RanksKilledAtAnyMomentDoNotPoisonTheNextStart) {
  const base::TemporaryFolder folder;
  const std::string place = "file://" + (folder.path() / "meet").string();
  for (int round = 0; round < 40; ++round) {
    {
      std::vector<Child> doomed;
      for (int rank = 0; rank < 4; ++rank) doomed.emplace_back(place, rank, 4, "hold");
      // From before the first instruction to after the meeting.
      doomed[0].says("met 4", Deadline::in(std::chrono::milliseconds(round)));
    }
    std::vector<Child> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(place, rank, 4);
    for (auto& rank : ranks) EXPECT_EQ(rank.wait(soon()), 0) << round << ": " << rank.output();
  }
}

TEST(EnduranceTest, Row14AStrangerIsNamedAfterFiveSecondsWhateverTheDeadline) {
  const Stranger stranger([](int) {});
  const Endpoint endpoint = Endpoint::tcp("127.0.0.1", stranger.port());
  std::string message;
  const auto time = time_of([&] {
    message = message_of<RendezvousError>(
        [&] { Client::connect(endpoint, member(1, 2), Deadline::in(60s)); });
  });
  EXPECT_THAT(message, HasSubstr("answers but is not a lockstep store: it said nothing for 5 s"));
  EXPECT_LT(time, 5500ms);
}

TEST(EnduranceTest, Row14OneThatAlwaysHangsUpIsNamedToo) {
  const Stranger rude([](int fd) { ::shutdown(fd, SHUT_RDWR); });
  const Endpoint endpoint = Endpoint::tcp("127.0.0.1", rude.port());
  std::string message;
  const auto time = time_of([&] {
    message = message_of<RendezvousError>(
        [&] { Client::connect(endpoint, member(1, 2), Deadline::in(60s)); });
  });
  EXPECT_THAT(message, HasSubstr("answers but is not a lockstep store: it closes the connection"));
  EXPECT_LT(time, 6s);
}

TEST(EnduranceTest, Row38AnUnfinishedHelloIsDroppedAfterFiveSeconds) {
  const Server server(loopback(), member(0, 1));
  RawClient silent(server.endpoint());
  RawClient slow(server.endpoint());
  slow.send("LSTEP-c");
  const auto time = time_of([&] {
    EXPECT_TRUE(silent.closed(Deadline::in(7s)));
    EXPECT_TRUE(slow.closed(Deadline::in(7s)));
  });
  EXPECT_GT(time, 4s);
  EXPECT_LT(time, 6s);
}

TEST(EnduranceTest, FiveHundredRanksMeet) {
  constexpr int kRanks = 500;
  const Server server(loopback(), member(0, kRanks));
  std::vector<std::shared_ptr<Client>> clients;
  const auto time = time_of([&] {
    for (int rank = 0; rank < kRanks; ++rank)
      clients.push_back(Client::connect(server.endpoint(), member(rank, kRanks), soon()));
    for (const auto& client : clients)
      EXPECT_EQ(client->wait_for_all(soon()).size(), std::size_t{kRanks});
  });
  RecordProperty("milliseconds", static_cast<int>(time.count()));
  EXPECT_LT(time, 20s);
}

}  // namespace lockstep::rendezvous
