#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/held_port.h"
#include "base/socket.h"
#include "lockstep/error.h"
#include "rendezvous/client.h"
#include "rendezvous/party.h"
#include "rendezvous/server.h"

namespace lockstep::rendezvous {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

std::string failure_at(const std::string& place, Deadline::Clock::duration limit = 300ms) {
  std::string message;
  const auto time = time_of([&] {
    message = message_of<RendezvousError>(
        [&] { Client::connect(Endpoint::parse(place), member(1, 2), Deadline::in(limit)); });
  });
  EXPECT_LT(time, limit + 700ms);
  EXPECT_THAT(message, HasSubstr("remedy:"));
  return message;
}

std::string at_port(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

void say(int fd, const std::string& text) { base::send_some(fd, std::as_bytes(std::span(text))); }

}  // namespace

TEST(DialTest, ClosedPortIsToldApart) {
  const base::HeldPort port;
  EXPECT_THAT(
      failure_at("tcp://" + at_port(port.number())),
      AllOf(HasSubstr("nothing listens at " + at_port(port.number())), HasSubstr("within 0.3 s")));
}

TEST(DialTest, UnknownHostIsToldApart) {
  EXPECT_THAT(failure_at("tcp://no-such-host.invalid:29500"),
              AllOf(HasSubstr("'no-such-host.invalid' is unknown here"), HasSubstr("spelling")));
}

TEST(DialTest, AMissingUnixSocketIsToldApart) {
  EXPECT_THAT(failure_at("unix:/tmp/no-such-folder/socket", 50ms),
              HasSubstr("nothing listens at unix:/tmp/no-such"));
  EXPECT_THAT(failure_at("unix:/" + std::string(300, 'x'), 50ms), HasSubstr("File name too long"));
}

TEST(DialTest, TheServerMayComeLater) {
  const base::HeldPort port;
  const std::string place = "tcp://" + at_port(port.number());
  auto client = std::async(std::launch::async, [&] {
    return Client::connect(Endpoint::parse(place), member(0, 1), soon());
  });
  EXPECT_EQ(client.wait_for(30ms), std::future_status::timeout);
  const Server server(Endpoint::parse(place), member(0, 1));
  EXPECT_EQ(client.get()->wait_for_all(soon()).size(), 1u);
}

TEST(DialTest, Row14D42AStrangerThatNeverAnswersIsNamed) {
  const Stranger stranger([](int) {});
  EXPECT_THAT(failure_at("tcp://" + at_port(stranger.port())),
              AllOf(HasSubstr(at_port(stranger.port()) + " answers but is not a lockstep store"),
                    HasSubstr("it said nothing"), HasSubstr("another port")));
}

TEST(DialTest, Row14AStrangerThatAnswersIsNamedAtOnce) {
  const Stranger web([](int fd) { say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n"); });
  EXPECT_LT(time_of([&] {
              EXPECT_THAT(failure_at("tcp://" + at_port(web.port()), 10s),
                          HasSubstr("answers but is not a lockstep store: it said 'HTTP/1.1 400"));
            }),
            1s);
}

TEST(DialTest, Row14AnEchoIsNoStore) {
  const Stranger echo([](int fd) {
    pollfd readable{fd, POLLIN, 0};
    base::poll_until({&readable, 1}, soon());
    std::array<std::byte, 2048> buffer;
    const auto got = base::receive_some(fd, buffer);
    base::send_some(fd, {buffer.data(), got.count});
  });
  EXPECT_THAT(failure_at("tcp://" + at_port(echo.port()), 10s),
              HasSubstr("is not a lockstep store"));
}

TEST(DialTest, ASilentHangUpIsTriedAgainUntilTheDeadline) {
  const Stranger rude([](int fd) { ::shutdown(fd, SHUT_RDWR); });
  EXPECT_THAT(failure_at("tcp://" + at_port(rude.port())),
              HasSubstr("closes them without an answer"));
}

TEST(DialTest, AnotherVersionOfTheProtocolIsNamed) {
  const Stranger newer(
      [](int fd) { say(fd, std::string("LSTEP-s\n") + '\x63' + std::string(3, '\0')); });
  EXPECT_THAT(failure_at("tcp://" + at_port(newer.port()), 10s),
              AllOf(HasSubstr("speaks version 99"), HasSubstr("same lockstep")));
}

}  // namespace lockstep::rendezvous
