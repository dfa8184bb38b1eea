#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/held_port.h"
#include "lockstep/error.h"
#include "rendezvous/meet.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// A port that is free, and stays ours to use.
struct RefusalTest : ::testing::Test {
  base::HeldPort port;
  std::string place = "tcp://127.0.0.1:" + std::to_string(port.number());
};

}  // namespace

TEST_F(RefusalTest, Row15ClientOfAnotherJobIsToldBothIds) {
  const Server server(Endpoint::parse(place), member(0, 2, "job-A"));
  std::string message;
  EXPECT_LT(time_of([&] {
              message =
                  message_of<RendezvousError>([&] { meet(place, member(1, 2, "job-B"), soon()); });
            }),
            1s);
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("this is the store of job 'job-A', served by rank 0 (host host-0, pid 1000)"),
            HasSubstr("belongs to job 'job-B'"), HasSubstr("remedy:")));
}

TEST_F(RefusalTest, Row15D43SecondRankZeroIsToldWhoHoldsThePort) {
  const Server server(Endpoint::parse(place), member(0, 2, "job-A"));
  std::string message;
  EXPECT_LT(time_of([&] {
              message =
                  message_of<RendezvousError>([&] { meet(place, member(0, 2, "job-B"), soon()); });
            }),
            1s);
  EXPECT_THAT(message,
              AllOf(HasSubstr(std::to_string(port.number())),
                    HasSubstr("in use by job 'job-A', served by rank 0 (host host-0, pid 1000)")));
}

TEST_F(RefusalTest, D42PortHeldByAnotherProgramIsNamed) {
  const Stranger stranger([](int) {});
  const std::string taken = "tcp://127.0.0.1:" + std::to_string(stranger.port());
  std::string message;
  EXPECT_LT(time_of([&] {
              message = message_of<RendezvousError>([&] { meet(taken, member(0, 2), soon()); });
            }),
            2s);
  EXPECT_THAT(message, HasSubstr("port " + std::to_string(stranger.port()) + " at 127.0.0.1"));
  EXPECT_THAT(message, HasSubstr("is in use by another program"));
}

TEST_F(RefusalTest, Row16DuplicateRankIsRefusedAndTheOthersMeet) {
  Member twin = member(1, 2);
  twin.pid = 4711;
  const Server server(Endpoint::parse(place), member(0, 2));
  const auto zero = Client::connect(server.endpoint(), member(0, 2), soon());
  const auto one = Client::connect(server.endpoint(), member(1, 2), soon());
  std::string message;
  EXPECT_LT(
      time_of([&] { message = message_of<RendezvousError>([&] { meet(place, twin, soon()); }); }),
      1s);
  EXPECT_THAT(message, AllOf(HasSubstr("rank 1 is already taken by pid 1001 on host host-1"),
                             HasSubstr("pid 4711")));
  EXPECT_EQ(zero->wait_for_all(soon()).size(), 2u);
  EXPECT_EQ(one->wait_for_all(soon()).size(), 2u);
}

TEST_F(RefusalTest, Row17DuplicateRankIsRefusedAndTheMissingOneNamed) {
  const auto outcomes =
      meet_all(place, {member(0, 3), member(1, 3), member(1, 3)}, Deadline::in(600ms));
  EXPECT_EQ(outcomes[0].kind, "TimeoutError");
  EXPECT_THAT(outcomes[0].happened, HasSubstr("missing: rank 2"));
  const auto& [first, second] = std::pair(outcomes[1], outcomes[2]);
  const Outcome& refused = first.kind == "RendezvousError" ? first : second;
  const Outcome& waited = first.kind == "RendezvousError" ? second : first;
  EXPECT_THAT(refused.message, HasSubstr("rank 1 is already taken"));
  EXPECT_LT(refused.time, 500ms);
  EXPECT_EQ(waited.kind, "TimeoutError");
  EXPECT_EQ(waited.happened, outcomes[0].happened);
}

TEST_F(RefusalTest, Row18WorldSizesThatDifferEndEveryRankAtOnce) {
  const Server server(Endpoint::parse(place), member(0, 3));
  const auto zero = Client::connect(server.endpoint(), member(0, 3), soon());
  const auto one = Client::connect(server.endpoint(), member(1, 3), soon());
  auto blocked = std::async(std::launch::async, [&] {
    return message_of<RendezvousError>([&] { one->get("never", soon()); });
  });
  auto waiting = std::async(std::launch::async, [&] {
    return message_of<RendezvousError>([&] { zero->wait_for_all(soon()); });
  });
  EXPECT_LT(time_of([&] {
              const auto expected = AllOf(HasSubstr("rank 0 (host host-0, pid 1000) says 3"),
                                          HasSubstr("rank 2 (host host-2, pid 1002) says 4"));
              EXPECT_THAT(message_of<RendezvousError>([&] { meet(place, member(2, 4), soon()); }),
                          expected);
              EXPECT_THAT(blocked.get(), expected);
              EXPECT_THAT(waiting.get(), expected);
              EXPECT_THAT(message_of<RendezvousError>([&] { one->set("k", "v"); }), expected);
              // Also who comes later, with settings that would do.
              EXPECT_THAT(message_of<RendezvousError>([&] { meet(place, member(2, 3), soon()); }),
                          expected);
            }),
            1s);
}

TEST_F(RefusalTest, Row18BothRanksOfTheUnequalWorldsFail) {
  for (const auto& outcome : meet_all(place, {member(0, 2), member(1, 3)}, soon())) {
    EXPECT_EQ(outcome.kind, "RendezvousError");
    EXPECT_THAT(outcome.message, HasSubstr("says 2"));
    EXPECT_THAT(outcome.message, HasSubstr("says 3"));
    EXPECT_LT(outcome.time, 1s);
  }
}

TEST_F(RefusalTest, Row19RankOutsideTheWorldEndsBothAtOnce) {
  for (const int rank : {5, 2, -1}) {
    const auto outcomes = meet_all(place, {member(0, 2), member(rank, 2)}, soon());
    EXPECT_EQ(outcomes[0].kind, "RendezvousError");
    EXPECT_EQ(outcomes[1].kind, "UsageError");
    for (const auto& outcome : outcomes) {
      EXPECT_THAT(outcome.message, HasSubstr("outside the world of 2")) << rank;
      EXPECT_THAT(outcome.message, HasSubstr("from 0 to 1")) << rank;
      EXPECT_LT(outcome.time, 1s);
    }
  }
}

TEST_F(RefusalTest, Row19RankOutsideTheWorldFailsWithoutAStoreToo) {
  const std::string message =
      message_of<UsageError>([&] { meet(place, member(5, 2), Deadline::in(100ms)); });
  EXPECT_THAT(message, HasSubstr("rank 5 (host host-5, pid 1005) is outside the world of 2"));
}

TEST_F(RefusalTest, AStrayProcessDoesNotHarmACompleteWorld) {
  const Server server(Endpoint::parse(place), member(0, 1));
  const auto zero = Client::connect(server.endpoint(), member(0, 1), soon());
  EXPECT_THROW(meet(place, member(0, 4), soon()), RendezvousError);
  EXPECT_THROW(Client::connect(server.endpoint(), member(3, 1), soon()), UsageError);
  EXPECT_THROW(meet(place, member(1, 4), soon()), RendezvousError);
  zero->set("k", "v");
  EXPECT_EQ(zero->get("k", soon()), "v");
}

TEST_F(RefusalTest, Row39WrongTokenIsRefused) {
  const Server server(Endpoint::parse(place), member(0, 2));
  for (const char* token : {"", "secres", "secret2", "secre"}) {
    Member other = member(1, 2);
    other.token = token;
    const std::string message = message_of<RendezvousError>([&] { meet(place, other, soon()); });
    EXPECT_THAT(message, HasSubstr("wrong token: rank 1 (host host-1, pid 1001)"));
    EXPECT_THAT(message, HasSubstr("served by rank 0 (host host-0, pid 1000)"));
    EXPECT_THAT(message, Not(HasSubstr("secret'")));
  }
}

TEST_F(RefusalTest, AProcessOfAnEarlierAttemptIsRefusedAndOneOfALaterWaits) {
  Member host = member(0, 1);
  host.attempt = 1;
  auto server = std::make_unique<Server>(Endpoint::parse(place), host);
  Member later = host;
  later.attempt = 2;
  EXPECT_THAT(message_of<RendezvousError>(
                  [&] { Client::connect(server->endpoint(), member(0, 1), soon()); }),
              HasSubstr("attempt 1 of job 'job-1'"));
  auto client = std::async(std::launch::async,
                           [&] { return Client::connect(Endpoint::parse(place), later, soon()); });
  EXPECT_EQ(client.wait_for(50ms), std::future_status::timeout);
  server.reset();
  server = std::make_unique<Server>(Endpoint::parse(place), later);
  EXPECT_EQ(client.get()->host().attempt, 2);
}

TEST_F(RefusalTest, SettingsThatAreNoneAreUsageErrors) {
  EXPECT_THAT(message_of<UsageError>([&] { meet(place, member(0, 0), soon()); }),
              HasSubstr("world size is 0"));
  for (const char* text : {"", "env://", "127.0.0.1:29500", "http://x:1"})
    EXPECT_THAT(message_of<UsageError>([&] { meet(text, member(0, 1), soon()); }),
                HasSubstr("tcp://HOST:PORT"));
  EXPECT_THAT(message_of<UsageError>([&] { meet("tcp://127.0.0.1:0", member(0, 2), soon()); }),
              HasSubstr("port"));
  const Member wordy = member(1, 2, std::string(2000, 'j'));
  EXPECT_THAT(message_of<UsageError>([&] { meet(place, wordy, soon()); }), HasSubstr("too long"));
}

}  // namespace lockstep::rendezvous
