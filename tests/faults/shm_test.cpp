// Shared memory that is killed, or too small. Cases D66 and row 40.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "base/concat.h"
#include "base/env.h"
#include "base/file.h"
#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::HasSubstr;
using testing::Not;

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator begin(folder), end;
  return static_cast<std::size_t>(std::distance(begin, end));
}

// Reduces for ever, in place and staged.
const ChildProgram reducing("reduce-for-ever", [](int, char**) {
  Group world = init_process_group();
  at::Tensor shared = world.empty({100'000}).zero_(), other = torch::zeros({100'000});
  std::puts("reducing");
  std::fflush(stdout);
  while (true) {
    world.all_reduce(shared);
    world.all_reduce(other);
  }
  return 0;
});

const ChildProgram once("reduce-once", [](int, char**) {
  std::signal(SIGTERM, SIG_IGN);  // each rank is to say what it saw
  Group world = init_process_group();
  at::Tensor sum = torch::ones({1'000'000});
  try {
    world.all_reduce(sum);
    std::printf("%s: sum %g\n", world.backend().c_str(), sum[999'999].item<double>());
  } catch (const InternalError& error) {
    std::printf("refused: %s\n", error.what());
    return 7;
  }
  return 0;
});

}  // namespace

TEST(SharedMemoryTest, Row40NothingIsLeftByHundredKilledJobs) {
  const std::size_t before = files_in("/dev/shm");
  const base::TemporaryFolder folder;
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    Launched run(
        {"run", "-n", "2", this_binary(), "--child=reduce-for-ever"},
        {{"OMP_NUM_THREADS", "1"}, {"LOCKSTEP_SHM_DIR", i % 2 == 0 ? folder.path().string() : ""}});
    // Some while they start, some in the middle.
    if (i % 4 != 0) {
      ASSERT_TRUE(run.wait_for("reducing", 2)) << run.finish().err;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    run.signal(SIGKILL);
    run.finish();
    ASSERT_EQ(run.offspring_left(base::Deadline::in(std::chrono::seconds(5))), 0u);
  }
  EXPECT_EQ(files_in("/dev/shm"), before);
  // A file whose maker was killed between making and unlinking it is the user's own to sweep; with
  // anonymous memory, the usual way, there is none.
  EXPECT_LE(files_in(folder.path()), 2u);
}

TEST(SharedMemoryTest, D66AFolderThatIsTooSmallIsAnErrorOnEveryRankAndNoSignal) {
  // A file system of 1 MB that only this job sees.
  const base::TemporaryFolder folder;
  const std::string mount =
      concat("mount -t tmpfs -o size=1m none ", folder.path().string(), " && exec \"$@\"");
  Launched probe(Program{{"/usr/bin/unshare", "-m", "sh", "-c", mount, "sh", "true"}});
  if (probe.finish().code != 0) GTEST_SKIP() << "no private mounts here: not root";
  Launched run(Program{{"/usr/bin/unshare", "-m", "sh", "-c", mount, "sh", LOCKSTEP_COMMAND, "run",
                        "-n", "3", this_binary(), "--child=reduce-once"}},
               {{"OMP_NUM_THREADS", "1"}, {"LOCKSTEP_SHM_DIR", folder.path().string()}});
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 7) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("refused: "));
  EXPECT_THAT(end.out, HasSubstr("shared memory has no room for 524288 bytes more"));
  EXPECT_THAT(end.out, HasSubstr("could not go on"));
  EXPECT_THAT(end.err, Not(HasSubstr("SIGBUS")));
}

TEST(SharedMemoryTest, AFileServesWhereDescriptorsCannotBeShared) {
  const base::TemporaryFolder folder;
  Launched run({"run", "-n", "2", this_binary(), "--child=reduce-once"},
               {{"OMP_NUM_THREADS", "1"}, {"LOCKSTEP_SHM_DIR", folder.path().string()}});
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("shm: sum 2"));
  EXPECT_EQ(files_in(folder.path()), 0u);
}

}  // namespace lockstep::test
