// Deaths that the system causes, and whether the report names the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/concat.h"
#include "base/file.h"
#include "launch/launched.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using base::concat;
using testing::HasSubstr;

// Writes to as much memory as it can get.
const ChildProgram memory_hog("memory-hog", [](int, char**) {
  std::vector<char*> blocks;
  for (int i = 0; i < 4096; ++i) {
    blocks.push_back(static_cast<char*>(std::malloc(1 << 20)));
    for (int at = 0; at < 1 << 20; at += 4096) blocks.back()[at] = 1;
  }
  return 0;
});

const ChildProgram aborting("aborting", [](int, char**) -> int { std::abort(); });

// A memory control group of 64 MiB for the life of the object.
class MemoryGroup {
 public:
  MemoryGroup() {
    std::error_code error;
    if (fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")) {
      path_ = concat("/sys/fs/cgroup/memory/lockstep-test-", ::getpid());
      limit_file_ = "memory.limit_in_bytes";
    } else {
      path_ = concat("/sys/fs/cgroup/lockstep-test-", ::getpid());
      limit_file_ = "memory.max";
    }
    if (!fs::create_directory(path_, error)) return;
    std::ofstream(path_ / limit_file_) << (64 << 20);
    usable_ = std::ofstream(path_ / "cgroup.procs", std::ios::app).good() &&
              fs::exists(path_ / limit_file_);
  }
  ~MemoryGroup() { ::rmdir(path_.c_str()); }
  bool usable() const { return usable_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::string limit_file_;
  bool usable_ = false;
};

}  // namespace

TEST(DeathTest, D59SignalsAreNamed) {
  const Finished segv = run_shell({"-n", "2"}, "test $RANK = 1 && kill -SEGV $$; sleep 100");
  EXPECT_THAT(segv.err, HasSubstr("rank 1 failed: died of SIGSEGV (signal 11"));
  const Finished abort = lockstep({"run", this_binary(), "--child=aborting"});
  EXPECT_EQ(abort.code, 128 + SIGABRT);
  EXPECT_THAT(abort.err, HasSubstr("died of SIGABRT (signal 6"));
  EXPECT_THAT(abort.err, HasSubstr("uncaught exception"));
}

TEST(DeathTest, D59AnOutOfMemoryKillIsNamed) {
  const MemoryGroup group;
  if (!group.usable())
    GTEST_SKIP() << "no memory control group can be made here (needs root and a writable cgroup)";
  const std::string script =
      concat("echo $$ > ", group.path().string(), "/cgroup.procs; exec '", LOCKSTEP_COMMAND,
             "' run '", this_binary(), "' --child=memory-hog");
  const Finished run = run_shell({}, script);
  EXPECT_EQ(run.code, 137);
  EXPECT_THAT(run.err, HasSubstr("killed by the kernel's out-of-memory killer"));
  EXPECT_THAT(run.err, HasSubstr("64 MiB"));
}

TEST(DeathTest, AMissingLibraryIsNamed) {
  const Finished run = run_shell({},
                                 "echo 'prog: error while loading shared libraries: libtorch.so: "
                                 "cannot open shared object file' >&2; exit 127");
  EXPECT_EQ(run.code, 127);
  EXPECT_THAT(run.err, HasSubstr("shared library libtorch.so was not found"));
}

TEST(DeathTest, ALibraryOfAnotherVersionIsTold) {
  const Finished run = run_shell(
      {},
      "echo 'prog: symbol lookup error: prog: undefined symbol: _ZN4c10d7Backend' >&2; exit 127");
  EXPECT_EQ(run.code, 127);
  EXPECT_THAT(run.err, HasSubstr("not of the version that the program was built with"));
}

}  // namespace lockstep::test
