#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/file.h"
#include "base/held_port.h"
#include "base/port_claim.h"
#include "base/private_folder.h"
#include "base/process.h"
#include "base/socket.h"

namespace lockstep::base {
namespace {

namespace fs = std::filesystem;

// A root folder with what the kernel shows of control groups.
class FakeRoot {
 public:
  const fs::path& path() const { return folder_.path(); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path() / file).parent_path());
    std::ofstream(path() / file) << text;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST(CgroupTest, VersionTwoTakesTheSmallestLimitOfAllGroupsAround) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/job/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "67108864\n");
  root.write("sys/fs/cgroup/job/step/memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n");
  const Cgroup cgroup(root.path());
  EXPECT_EQ(cgroup.cpu_limit(), 1.5);
  EXPECT_EQ(cgroup.memory_limit(), 67108864u);
  EXPECT_EQ(cgroup.out_of_memory_kills(), 3u);
}

TEST(CgroupTest, VersionOneWithItsControllersApart) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n");
  root.write("proc/self/mountinfo",
             "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "32 25 0:28 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  const Cgroup cgroup(root.path());
  EXPECT_EQ(cgroup.cpu_limit(), 1.0);
  EXPECT_EQ(cgroup.memory_limit(), std::nullopt);
  EXPECT_EQ(cgroup.out_of_memory_kills(), 2u);
}

TEST(CgroupTest, WithoutGroupsThereAreNoLimits) {
  const FakeRoot root;
  root.write("proc/vmstat", "pgfault 1\noom_kill 5\n");
  const Cgroup cgroup(root.path());
  EXPECT_EQ(cgroup.cpu_limit(), std::nullopt);
  EXPECT_EQ(cgroup.memory_limit(), std::nullopt);
  EXPECT_EQ(cgroup.out_of_memory_kills(), 5u);
  EXPECT_GE(usable_cpus(), 1);
}

TEST(PrivateFolderTest, IsPrivateRemovedAndSweptOnlyWhenItsOwnerIsDead) {
  const std::string prefix = concat("lockstep-folder-test-", ::getpid());
  const fs::path abandoned = fs::temp_directory_path() / (prefix + "-abandoned");
  fs::create_directory(abandoned);
  std::ofstream(abandoned / "socket") << "x";
  fs::path first_path;
  {
    const PrivateFolder first(prefix);
    first_path = first.path();
    EXPECT_FALSE(fs::exists(abandoned));
    EXPECT_EQ(fs::status(first_path).permissions() & fs::perms::all, fs::perms::owner_all);
    const PrivateFolder second(prefix);
    EXPECT_TRUE(fs::exists(first_path)) << "its owner lives";
    EXPECT_NE(first_path, second.path());
  }
  EXPECT_FALSE(fs::exists(first_path));
}

TEST(HeldPortTest, IsGivenToNobodyElseButMayBeListenedOn) {
  const HeldPort held;
  const auto address = SocketAddress::ip("127.0.0.1", held.number()).value();
  const SocketResult listener = open_listener(address);
  EXPECT_TRUE(listener.fd) << listener.error;
  EXPECT_THROW(HeldPort again(held.number()), UsageError) << "somebody listens there now";
}

TEST(PortClaimTest, IsForOneAndNamesItsHolder) {
  const HeldPort unused;
  const PortClaim first(unused.number());
  try {
    const PortClaim second(unused.number());
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(concat("pid ", ::getpid())));
  }
}

}  // namespace lockstep::base
