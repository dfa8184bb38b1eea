#include "rendezvous/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/file.h"
#include "lockstep/error.h"
#include "rendezvous/party.h"
#include "rendezvous/server.h"

namespace lockstep::rendezvous {
using namespace test;
using ::testing::HasSubstr;

namespace {

/// One server and its world of clients, in this process.
struct World {
  explicit World(int size, const Endpoint& endpoint = loopback()) {
    server.emplace(endpoint, member(0, size));
    for (int rank = 0; rank < size; ++rank)
      clients.push_back(Client::connect(server->endpoint(), member(rank, size), soon()));
  }
  std::optional<Server> server;
  std::vector<std::shared_ptr<Client>> clients;
};

/// Departures as they are told.
class Departures {
 public:
  explicit Departures(Client& client) {
    client.on_departure([this](const Member& member, Departure how) {
      const std::lock_guard lock(mutex_);
      told_.emplace_back(member.rank, how);
      changed_.notify_all();
    });
  }
  std::vector<std::pair<int, Departure>> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, soon().time(), [&] { return told_.size() >= count; });
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, Departure>> told_;
};

}  // namespace

TEST(ClientTest, KeepsValuesAsC10dDoes) {
  World world(2);
  Client& a = *world.clients[0];
  Client& b = *world.clients[1];
  a.set("key", std::string("zero\0byte", 9));
  EXPECT_EQ(b.get("key", soon()), std::string("zero\0byte", 9));
  a.set("key", "");
  EXPECT_EQ(b.get("key", soon()), "");
  EXPECT_TRUE(b.has({"key"}));
  EXPECT_FALSE(b.has({"key", "other"}));
  EXPECT_EQ(b.count_keys(), 1);
  EXPECT_TRUE(b.erase("key"));
  EXPECT_FALSE(b.erase("key"));
  EXPECT_EQ(a.count_keys(), 0);
  a.append("list", "a");
  b.append("list", "b");
  EXPECT_EQ(a.get("list", soon()), "ab");
}

TEST(ClientTest, AddKeepsDecimalText) {
  World world(1);
  Client& client = *world.clients[0];
  EXPECT_EQ(client.add("n", 5), 5);
  EXPECT_EQ(client.add("n", -7), -2);
  EXPECT_EQ(client.get("n", soon()), "-2");
  client.set("n", "40");
  EXPECT_EQ(client.add("n", 2), 42);
  client.set("n", "text");
  EXPECT_THAT(message_of<UsageError>([&] { client.add("n", 1); }),
              HasSubstr("'n' is not a number"));
  client.set("n", std::to_string(INT64_MAX));
  EXPECT_THROW(client.add("n", 1), UsageError);
}

TEST(ClientTest, CompareSetHasTheFourCasesOfC10d) {
  World world(1);
  Client& client = *world.clients[0];
  EXPECT_EQ(client.compare_set("k", "old", "new"),
            "old");  // absent, something expected: nothing happens
  EXPECT_FALSE(client.has({"k"}));
  EXPECT_EQ(client.compare_set("k", "", "first"), "first");
  EXPECT_EQ(client.compare_set("k", "wrong", "second"), "first");
  EXPECT_EQ(client.compare_set("k", "first", "second"), "second");
  EXPECT_EQ(client.get("k", soon()), "second");
}

TEST(ClientTest, ABlockedGetDelaysNoOtherCall) {
  World world(1);
  Client& client = *world.clients[0];
  std::string got;
  std::thread getter([&] { got = client.get("late", soon()); });
  std::thread waiter([&] { client.wait({"late", "later"}, soon()); });
  EXPECT_EQ(client.add("n", 1), 1);
  client.set("late", "now");
  client.set("later", "now");
  getter.join();
  waiter.join();
  EXPECT_EQ(got, "now");
}

TEST(ClientTest, WaitsEndAtTheDeadlineNamingTheKey) {
  World world(1);
  Client& client = *world.clients[0];
  const auto time = time_of([&] {
    EXPECT_THAT(message_of<TimeoutError>([&] { client.get("absent", Deadline::in(100ms)); }),
                HasSubstr("key 'absent' was not set within 0.1 s"));
    EXPECT_THAT(message_of<TimeoutError>([&] {
                  client.wait({"x", "y"}, Deadline::in(100ms));
                }),
                HasSubstr("'x', 'y'"));
  });
  EXPECT_LT(time, 2s);
  client.set("absent", "here");
  EXPECT_EQ(client.get("absent", soon()), "here");
}

TEST(ClientTest, LargeValuesPassAndTooLargeOnesAreRefused) {
  World world(2);
  const std::string large(std::size_t{8} << 20, 'x');
  std::thread getter(
      [&] { EXPECT_EQ(world.clients[1]->get("large", soon()).size(), large.size()); });
  world.clients[0]->set("large", large);
  getter.join();
  EXPECT_THROW(world.clients[0]->set("huge", std::string(std::size_t{64} << 20, 'x')), UsageError);
  EXPECT_EQ(world.clients[0]->count_keys(), 1);
}

TEST(ClientTest, ManyThreadsCountRight) {
  World world(4);
  std::vector<std::thread> threads;
  for (const auto& client : world.clients)
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&client] {
        for (int n = 0; n < 50; ++n) client->add("sum", 1);
      });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(world.clients[0]->get("sum", soon()), "800");
}

TEST(ClientTest, WaitForAllReturnsEveryoneByRankWithoutTokens) {
  World world(3);
  for (const auto& client : world.clients) {
    const auto members = client->wait_for_all(soon());
    ASSERT_EQ(members.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members[rank].text(), member(rank, 3).text());
    EXPECT_EQ(members[0].token, "");
  }
}

TEST(ClientTest, DeparturesAreToldOnceAlsoAfterwards) {
  World world(3);
  Departures early(*world.clients[0]);
  world.clients[2]->leave();
  EXPECT_EQ(early.wait_for(1), (std::vector<std::pair<int, Departure>>{{2, Departure::kLeft}}));
  Departures late(*world.clients[0]);
  EXPECT_EQ(late.wait_for(1), (std::vector<std::pair<int, Departure>>{{2, Departure::kLeft}}));
  EXPECT_THROW(world.clients[2]->set("k", "v"), UsageError);
  world.clients[0]->set("k", "v");
}

TEST(ClientTest, AClosedStoreEndsEveryCallAtOnce) {
  World world(2);
  Departures departures(*world.clients[1]);
  std::string message;
  std::thread getter(
      [&] { message = message_of<PeerLost>([&] { world.clients[1]->get("never", soon()); }); });
  while (world.clients[0]->add("spin", 1) < 3) {
  }
  world.clients[0]->leave();
  EXPECT_LT(time_of([&] { world.server.reset(); }), 900ms);
  getter.join();
  EXPECT_THAT(message, HasSubstr("rank 0 (host host-0, pid 1000)"));
  EXPECT_THROW(world.clients[1]->set("k", "v"), PeerLost);
  EXPECT_EQ(departures.wait_for(1),
            (std::vector<std::pair<int, Departure>>{{0, Departure::kLeft}}));
}

TEST(ClientTest, AHandlerMayLeaveButNotAsk) {
  World world(2);
  std::atomic<bool> asked{false};
  Client& client = *world.clients[0];
  client.on_departure([&](const Member&, Departure) {
    EXPECT_THROW(client.set("k", "v"), UsageError);
    client.leave();
    asked = true;
    asked.notify_all();
  });
  world.clients[1]->leave();
  asked.wait(false);
}

TEST(ClientTest, WorksOverAUnixSocketOfALongPath) {
  const base::TemporaryFolder folder;
  const auto deep = folder.path() / std::string(150, 'd');
  std::filesystem::create_directory(deep);
  const auto path = deep / "socket";
  {
    World world(2, Endpoint::unix_path(path));
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    world.clients[1]->set("k", "v");
    EXPECT_EQ(world.clients[0]->get("k", soon()), "v");
  }
  EXPECT_TRUE(std::filesystem::is_empty(deep));
}

}  // namespace lockstep::rendezvous
