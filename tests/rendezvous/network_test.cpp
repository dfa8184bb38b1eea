#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/file.h"
#include "rendezvous/child.h"
#include "rendezvous/party.h"

namespace lockstep::rendezvous {
namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {

/// A host of its own as far as the network goes. Files in `etc` lie over those of /etc there.
class Host {
 public:
  explicit Host(const std::string& letter)
      : name_("ls-" + letter + std::to_string(::getpid())), etc_("/etc/netns/" + name_) {
    run({"ip", "netns", "add", name_});
    ip({"link", "set", "lo", "up"});
    fs::create_directories(etc_);
    etc("resolv.conf", "nameserver 127.0.0.99\n");
    etc("hosts", "127.0.0.1 localhost\n::1 localhost\n");
  }
  ~Host() {
    Child({"ip", "netns", "delete", name_}).wait(soon());
    std::error_code ignored;
    fs::remove_all(etc_, ignored);
    fs::remove("/etc/netns", ignored);  // only when empty
  }
  Host(const Host&) = delete;

  void etc(const std::string& file, const std::string& content) const {
    std::ofstream(etc_ / file) << content;
  }
  std::string ip(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"ip", "-netns", name_});
    return run(arguments);
  }
  /// Words before a command that run it here.
  std::vector<std::string> here() const { return {"ip", "netns", "exec", name_}; }
  /// The same after a shell's `preparation`, in mount and host name spaces of its own.
  std::vector<std::string> here(const std::string& preparation) const {
    return {"ip",      "netns", "exec", name_, "unshare",
            "--mount", "--uts", "sh",   "-c",  preparation + "; exec \"$@\"",
            "sh"};
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  fs::path etc_;
};

/// Two hosts with a cable between them: 10.77.0.1 and 10.77.0.2.
struct NetworkTest : ::testing::Test {
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (Child({"ip", "netns", "add", "ls-probe"}).wait(soon()) != 0)
      GTEST_SKIP() << "ip netns does not work here";
    run({"ip", "netns", "delete", "ls-probe"});
    a.emplace("a");
    b.emplace("b");
    a->ip({"link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b->name()});
    for (const Host* host : {&*a, &*b}) host->ip({"link", "set", "cable", "up"});
    a->ip({"address", "add", "10.77.0.1/24", "dev", "cable"});
    b->ip({"address", "add", "10.77.0.2/24", "dev", "cable"});
  }
  std::optional<Host> a;
  std::optional<Host> b;
};

void expect_both_meet(Child& zero, Child& one) {
  EXPECT_EQ(zero.wait(Deadline::in(20s)), 0) << zero.output();
  EXPECT_EQ(one.wait(Deadline::in(20s)), 0) << one.output();
  // And nothing but that is said: no warning.
  EXPECT_THAT(zero.output(), StartsWith("met 2"));
  EXPECT_THAT(one.output(), StartsWith("met 2"));
}

}  // namespace

TEST_F(NetworkTest, D45AddressesAreNeverTurnedIntoNames) {
  for (const Host* host : {&*a, &*b})
    host->etc("hosts", "10.77.0.1 bogus\n10.77.0.2 wrong\n10.77.0.99 wrong bogus\n");
  const std::string place = "tcp://10.77.0.1:29500";
  Child zero(place, 0, 2, "leave", 20s, a->here());
  Child one(place, 1, 2, "leave", 20s, b->here());
  EXPECT_LT(time_of([&] { expect_both_meet(zero, one); }), 5s);
  EXPECT_THAT(one.output(), HasSubstr("by 10.77.0.2"));
  Child lost(place, 1, 2, "leave", 300ms, b->here());
  EXPECT_EQ(lost.wait(soon()), 1);
  EXPECT_THAT(lost.output(), HasSubstr("nothing listens at 10.77.0.1:29500"));
}

TEST_F(NetworkTest, D47LocalhostWorksWithoutIPv6) {
  Child(std::vector<std::string>{"ip", "netns", "exec", a->name(), "sysctl", "-qw",
                                 "net.ipv6.conf.all.disable_ipv6=1"})
      .wait(soon());
  for (const char* place : {"tcp://localhost:29500", "tcp://127.0.0.1:29501"}) {
    Child zero(place, 0, 2, "leave", 20s, a->here());
    Child one(place, 1, 2, "leave", 20s, a->here());
    expect_both_meet(zero, one);
  }
}

TEST_F(NetworkTest, D47IPv6AloneIsEnough) {
  a->ip({"address", "del", "127.0.0.1/8", "dev", "lo"});
  for (const char* place : {"tcp://[::1]:29500", "tcp://localhost:29501"}) {
    Child zero(place, 0, 2, "leave", 20s, a->here());
    Child one(place, 1, 2, "leave", 20s, a->here());
    expect_both_meet(zero, one);
  }
}

TEST_F(NetworkTest, D48AHostNameThatLeadsToLoopbackDoesNotHideRankZero) {
  a->etc("hosts", "127.0.0.1 localhost\n127.0.1.1 host-x\n");
  b->etc("hosts", "127.0.0.1 localhost\n10.77.0.1 host-x\n");
  Child zero("tcp://host-x:29500", 0, 2, "leave", 20s, a->here("hostname host-x"));
  Child one("tcp://host-x:29500", 1, 2, "leave", 20s, b->here());
  expect_both_meet(zero, one);
}

TEST_F(NetworkTest, D48AFileTellsAddressesThatOtherHostsReach) {
  const base::TemporaryFolder shared;
  const std::string place = "file://" + (shared.path() / "meet").string();
  for (const char* name : {"host-x", "123"}) {
    // Addresses that every host has, and that lead nowhere else.
    Child zero(
        place, 0, 2, "leave", 20s,
        a->here(std::string("hostname ") + name + "; ip address replace 172.17.0.1/16 dev lo"));
    Child one(place, 1, 2, "leave", 20s, b->here("ip address replace 172.17.0.1/16 dev lo"));
    expect_both_meet(zero, one);
    EXPECT_THAT(one.output(), HasSubstr("by 10.77.0.2"));
  }
}

TEST_F(NetworkTest, D41AFolderThatIsNotSharedIsSuspected) {
  const std::string own_tmp = "mount -t tmpfs none /tmp && cp \"$1\" /tmp/tests; program=$1";
  // The test binary may itself lie below /tmp: a copy goes along.
  const std::string preparation = own_tmp + "; shift; set -- /tmp/tests \"$@\"";
  Child zero("file:///tmp/meet", 0, 2, "leave", 2s, a->here(preparation));
  Child one("file:///tmp/meet", 1, 2, "leave", 2s, b->here(preparation));
  EXPECT_EQ(zero.wait(soon()), 1);
  EXPECT_EQ(one.wait(soon()), 1);
  EXPECT_THAT(zero.output(), AllOf(HasSubstr("only rank 0 was seen in this file"),
                                   HasSubstr("is the folder shared by all hosts?")));
  EXPECT_THAT(one.output(), HasSubstr("no rank 0 appeared in /tmp/meet"));
}

TEST_F(NetworkTest, AnAddressWithoutAWayIsToldApart) {
  Child one("tcp://10.99.0.1:29500", 1, 2, "leave", 500ms, b->here());
  EXPECT_EQ(one.wait(soon()), 1);
  EXPECT_THAT(one.output(), HasSubstr("no way from this host to 10.99.0.1:29500"));
  Child two("tcp://10.77.0.99:29500", 1, 2, "leave", 500ms, b->here());
  EXPECT_EQ(two.wait(soon()), 1);
  EXPECT_THAT(two.output(), HasSubstr("no answer from 10.77.0.99:29500"));
}

TEST_F(NetworkTest, D50Row10ACutLinkIsNoticedOnBothSidesWithinFifteenSeconds) {
  const std::string place = "tcp://10.77.0.1:29500";
  Child zero(place, 0, 2, "hold", 60s, a->here());
  Child one(place, 1, 2, "hold", 60s, b->here());
  ASSERT_TRUE(zero.says("ready", soon())) << zero.output();
  ASSERT_TRUE(one.says("ready", soon())) << one.output();
  b->ip({"link", "set", "cable", "down"});
  const Deadline limit = Deadline::in(15s);
  EXPECT_TRUE(zero.says("1 is lost", limit)) << zero.output();
  EXPECT_TRUE(one.says("0 is lost", limit)) << one.output();
}

}  // namespace lockstep::rendezvous
