#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <random>

#include "rendezvous/client.h"
#include "rendezvous/party.h"
#include "rendezvous/server.h"
#include "rendezvous/wire.h"

namespace lockstep::rendezvous {
using namespace test;

namespace {

std::size_t resident_kilobytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == "VmRSS:") return file >> word, std::stoul(word);
  return 0;
}

std::string random_bytes(std::size_t size) {
  std::mt19937 random(38);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

TEST(IntruderTest, Row38D44GarbageIsDroppedAtOnceAndDisturbsNobody) {
  const Server server(loopback(), member(0, 1));
  const auto client = Client::connect(server.endpoint(), member(0, 1), soon());
  const std::size_t before = resident_kilobytes();
  const std::string huge = greeting(kClientMagic) + std::string("\xff\xff\xff\x7f\x01", 5);
  const std::string late_huge = greeting(kClientMagic) + std::string("\x01\x04\x00\x00\x01", 5);
  for (const auto& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), random_bytes(64 << 10),
        huge, late_huge, greeting(kClientMagic) + std::string("\x00\x00\x00\x00", 4)}) {
    for (int i = 0; i < 20; ++i) {
      RawClient intruder(server.endpoint());
      intruder.send(bytes);
      EXPECT_TRUE(intruder.closed(Deadline::in(1s)));
    }
    EXPECT_EQ(client->add("alive", 0), 0);
  }
  EXPECT_LT(resident_kilobytes(), before + 20 * 1024);
}

TEST(IntruderTest, Row38SilentConnectionsDoNotKeepOthersOut) {
  const Server server(loopback(), member(0, 1));
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(std::make_unique<RawClient>(server.endpoint()));
  EXPECT_LT(
      time_of([&] { Client::connect(server.endpoint(), member(0, 1), soon())->set("k", "v"); }),
      2500ms);
}

TEST(IntruderTest, AMemberThatTalksNonsenseIsLost) {
  for (const std::string& nonsense :
       {Packer(Kind::kSet).number(1).text("key without value").take(),
        Packer(Kind::kAdmitted).number(1).take(), std::string("\xff\xff\xff\xff", 4)}) {
    const Server server(loopback(), member(0, 2));
    const auto client = Client::connect(server.endpoint(), member(0, 2), soon());
    RawClient broken(server.endpoint());
    broken.send(greeting(kClientMagic) + Packer(Kind::kHello).member(member(1, 2), true).take());
    EXPECT_EQ(client->wait_for_all(soon()).size(), 2u);
    std::promise<std::pair<int, Departure>> told;
    client->on_departure([&](const Member& gone, Departure how) {
      told.set_value({gone.rank, how});
    });
    broken.send(nonsense);
    EXPECT_TRUE(broken.closed(soon()));
    EXPECT_EQ(told.get_future().get(), std::pair(1, Departure::kLost));
    EXPECT_EQ(client->count_keys(), 0);
  }
}

}  // namespace lockstep::rendezvous
