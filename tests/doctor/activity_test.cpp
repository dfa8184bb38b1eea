// SIGQUIT to the launcher: what every rank is doing, while the job lives on.
#include <gmock/gmock.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>

#include "base/concat.h"
#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::AllOf;
using testing::ContainsRegex;

// Rank 0 comes to the second all_reduce when it is told to, by SIGUSR1.
const ChildProgram meeting("meet-when-told", [](int, char**) {
  sigset_t told;
  ::sigemptyset(&told);
  ::sigaddset(&told, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &told, nullptr);
  Group world = init_process_group();
  const at::Tensor tensor = at::ones({4});
  world.all_reduce(tensor);
  std::printf("rank %d is process %d\n", world.rank(), ::getpid());
  std::fflush(stdout);
  int signal = 0;
  if (world.rank() == 0) ::sigwait(&told, &signal);
  world.all_reduce(tensor);
  destroy_process_group();
  return 0;
});

/// Asks until the answer has `text`: a rank may not be there yet.
bool ask_until(Launched& run, const std::string& text) {
  for (int asked = 0; asked < 100; ++asked) {
    run.signal(SIGQUIT);
    if (run.wait_for(text, 1, base::Deadline::in(std::chrono::milliseconds(200)))) return true;
  }
  return false;
}

/// The process that said it was this rank.
pid_t process_of(Launched& run, int rank) {
  const std::string head = concat("rank ", rank, " is process ");
  for (const pid_t pid : run.offspring())
    if (run.wait_for(concat(head, pid, "\n"), 1, base::Deadline::in({}))) return pid;
  return -1;
}

}  // namespace

TEST(ActivityTest, AllRanksAreToldAlsoOneThatIsStopped) {
  Launched run({"run", "-n", "2", this_binary(), "--child=meet-when-told"},
               {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(run.wait_for(" is process ", 2));
  ASSERT_TRUE(ask_until(run, "    in all_reduce #2 (sum, float32[4]) at "));
  ASSERT_TRUE(run.wait_for("    last call: all_reduce #1 (sum, float32[4]) at "));
  // Rank 1, which waits for rank 0, cannot answer while it is stopped: rank 0 tells of it.
  const pid_t waiting = process_of(run, 1);
  ASSERT_EQ(::kill(waiting, SIGSTOP), 0);
  ASSERT_TRUE(ask_until(run, concat("(pid ", waiting, "): stopped (T)")));
  ::kill(waiting, SIGCONT);
  run.signal(SIGUSR1);
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.err,
              AllOf(ContainsRegex("lockstep: rank 0 .pid [0-9]+.: asleep"),
                    ContainsRegex(concat("lockstep: rank 1 .pid ", waiting,
                                         ".: stopped .T.[^\n]*\n    in all_reduce #2 .sum"))));
}

TEST(ActivityTest, ProgramsWithoutTheLibraryAreToldToo) {
  Launched run({"run", "-n", "2", "sh", "-c",
                "trap 'exit 0' USR1; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(run.wait_for("ready", 2));
  run.signal(SIGQUIT);
  EXPECT_TRUE(run.wait_for("it has joined no group", 2));
  run.signal(SIGUSR1);
  EXPECT_EQ(run.finish().code, 0);
}

TEST(ActivityTest, ListedAsASignalToHandleItEndsTheJob) {
  Launched run({"run", "-n", "2", "--signals-to-handle", "SIGQUIT", "sh", "-c",
                "echo ready; exec sleep 60"});
  ASSERT_TRUE(run.wait_for("ready", 2));
  run.signal(SIGQUIT);
  const Finished end = run.finish();
  EXPECT_EQ(end.code, 128 + SIGQUIT) << end.err;
}

}  // namespace lockstep::test
