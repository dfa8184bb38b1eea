#include "base/socket.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "base/file.h"
#include "lockstep/error.h"

namespace lockstep::base {
using namespace std::chrono_literals;

namespace {

Deadline soon() { return Deadline::in(5s); }

SocketAddress loopback(std::uint16_t port = 0) { return *SocketAddress::ip("127.0.0.1", port); }

bool wait_readable(int fd) {
  pollfd event{fd, POLLIN, 0};
  return poll_until({&event, 1}, soon());
}

}  // namespace

TEST(SocketAddressTest, TakesDigitsAndLeavesNamesAlone) {
  EXPECT_EQ(SocketAddress::ip("10.1.2.3", 80)->text(), "10.1.2.3:80");
  EXPECT_EQ(SocketAddress::ip("::1", 80)->text(), "[::1]:80");
  EXPECT_EQ(SocketAddress::ip("fd00::7", 1)->host(), "fd00::7");
  EXPECT_FALSE(SocketAddress::ip("localhost", 80));
  EXPECT_FALSE(SocketAddress::ip("", 80));
  EXPECT_EQ(SocketAddress::unix_path("/tmp/x").text(), "unix:/tmp/x");
}

TEST(SocketAddressTest, KnowsItsKind) {
  EXPECT_TRUE(SocketAddress::ip("127.9.9.9", 1)->is_loopback());
  EXPECT_TRUE(SocketAddress::ip("::1", 1)->is_loopback());
  EXPECT_FALSE(SocketAddress::ip("10.0.0.1", 1)->is_loopback());
  EXPECT_TRUE(SocketAddress::ip("0.0.0.0", 1)->is_wildcard());
  EXPECT_TRUE(SocketAddress::ip("::", 1)->is_wildcard());
  EXPECT_TRUE(SocketAddress::ip("169.254.3.4", 1)->is_link_local());
  EXPECT_TRUE(SocketAddress::ip("fe80::1", 1)->is_link_local());
}

TEST(ResolveTest, DigitsAskNobodyAndUnknownNamesSayWhy) {
  EXPECT_EQ(resolve("10.1.2.3", 80, soon()).addresses.at(0).text(), "10.1.2.3:80");
  const auto local = resolve("localhost", 80, soon());
  ASSERT_FALSE(local.addresses.empty()) << local.failure;
  EXPECT_TRUE(local.addresses[0].is_loopback());
  const auto unknown = resolve("no-such-host.invalid", 80, soon());
  EXPECT_TRUE(unknown.addresses.empty());
  EXPECT_NE(unknown.failure, "");
}

TEST(SocketTest, BytesGoBothWaysAndTheEndIsTold) {
  const auto listener = open_listener(loopback());
  ASSERT_EQ(listener.error, 0);
  EXPECT_EQ(accept_from(listener.fd.get()).error, EAGAIN);
  auto client = connect_to(bound_address(listener.fd.get()), soon());
  ASSERT_EQ(client.error, 0);
  ASSERT_TRUE(wait_readable(listener.fd.get()));
  const auto server = accept_from(listener.fd.get());
  ASSERT_EQ(server.error, 0);
  std::array<std::byte, 8> bytes{std::byte{7}};
  EXPECT_TRUE(receive_some(server.fd.get(), bytes).would_block);
  EXPECT_EQ(send_some(client.fd.get(), std::span(bytes).first(1)).count, 1u);
  ASSERT_TRUE(wait_readable(server.fd.get()));
  EXPECT_EQ(receive_some(server.fd.get(), bytes).count, 1u);
  client.fd.reset();
  ASSERT_TRUE(wait_readable(server.fd.get()));
  EXPECT_TRUE(receive_some(server.fd.get(), bytes).ended);
}

TEST(SocketTest, FailuresToConnectAreToldApart) {
  auto listener = open_listener(loopback());
  const SocketAddress address = bound_address(listener.fd.get());
  listener.fd.reset();
  EXPECT_EQ(connect_to(address, soon()).error, ECONNREFUSED);
  EXPECT_EQ(connect_to(SocketAddress::unix_path("/tmp/no-such-socket"), soon()).error, ENOENT);
}

TEST(SocketTest, AnIdleLocalPortDoesNotConnectToItself) {
  // Linux gives connections sources of the parity that it avoids for listeners, one after the
  // other: within 15,000 attempts the source of one is the very port it goes to.
  auto listener = open_listener(loopback());
  const int port = bound_address(listener.fd.get()).port();
  for (const int neighbour : {port, port ^ 1}) {
    listener.fd.reset();
    listener = open_listener(loopback(static_cast<std::uint16_t>(neighbour)));
    if (listener.error != 0) continue;
    listener.fd.reset();
    const auto idle = loopback(static_cast<std::uint16_t>(neighbour));
    for (int i = 0; i < 15'000; ++i) ASSERT_EQ(connect_to(idle, soon()).error, ECONNREFUSED) << i;
  }
}

TEST(SocketTest, APortInUseIsRefusedAndOneJustLeftIsNot) {
  auto listener = open_listener(loopback());
  const SocketAddress address = bound_address(listener.fd.get());
  EXPECT_EQ(open_listener(address).error, EADDRINUSE);
  const auto client = connect_to(address, soon());
  ASSERT_TRUE(wait_readable(listener.fd.get()));
  accept_from(listener.fd.get());  // closed at once: the connection lingers on this side
  listener.fd.reset();
  EXPECT_EQ(open_listener(address).error, 0);
}

TEST(SocketTest, UnixPathsOverTheSystemsLimitWorkAndArePrivate) {
  const TemporaryFolder folder;
  const auto deep = folder.path() / std::string(200, 'd');
  std::filesystem::create_directory(deep);
  const auto address = SocketAddress::unix_path(deep / "socket");
  const auto listener = open_listener(address);
  ASSERT_EQ(listener.error, 0);
  EXPECT_EQ(std::filesystem::status(deep / "socket").permissions() & std::filesystem::perms::all,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(connect_to(address, soon()).error, 0);
  EXPECT_EQ(open_listener(SocketAddress::unix_path(deep / std::string(200, 'n'))).error,
            ENAMETOOLONG);
}

TEST(SocketTest, AWaitEndsAtItsDeadline) {
  const EventFd event;
  pollfd wait{event.get(), POLLIN, 0};
  EXPECT_FALSE(poll_until({&wait, 1}, Deadline::in(20ms)));
  event.raise();
  EXPECT_TRUE(poll_until({&wait, 1}, std::nullopt));
}

}  // namespace lockstep::base
