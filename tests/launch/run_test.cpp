#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/cgroup.h"
#include "base/concat.h"
#include "base/file.h"
#include "base/held_port.h"
#include "launch/launched.h"
#include "launch/worker_environment.h"

namespace lockstep::test {
namespace {

using base::concat;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

}  // namespace

TEST(RunTest, TellsEachWorkerWhoItIs) {
  const Finished run = run_shell({"-n", "3", "--role", "trainer", "--max-restarts", "2"},
                                 "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
                                 "$GROUP_WORLD_SIZE $ROLE_NAME "
                                 "$ROLE_RANK $ROLE_WORLD_SIZE $MASTER_ADDR "
                                 "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
                                 "$TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_SIGNALS_TO_HANDLE "
                                 "$TORCH_NCCL_ASYNC_ERROR_HANDLING");
  EXPECT_EQ(run.code, 0) << run.err;
  const std::string common = " 127.0.0.1 0 2 False SIGTERM,SIGINT,SIGHUP 1";
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre(concat("0 0 3 3 0 1 trainer 0 3", common),
                                                      concat("1 1 3 3 0 1 trainer 1 3", common),
                                                      concat("2 2 3 3 0 1 trainer 2 3", common)));
}

TEST(RunTest, GivesTheContractOfLockstepWorkers) {
  const Finished run = run_shell(
      {"-n", "2"},
      "echo $LOCKSTEP_JOB_ID $LOCKSTEP_JOB_TOKEN $LOCKSTEP_ATTEMPT $LOCKSTEP_RENDEZVOUS; test -d "
      "\"$(dirname \"${LOCKSTEP_RENDEZVOUS#unix:}\")\" && test $MASTER_PORT -gt 0",
      {{"LOCKSTEP_RENDEZVOUS", "unix:/stale"}});
  EXPECT_EQ(run.code, 0) << run.err;
  const auto lines = lines_of(run.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_THAT(lines[0],
              testing::MatchesRegex("[0-9a-f]{16} [0-9a-f]{32} 0 unix:/.*/rendezvous\\.0"));
}

TEST(RunTest, D61ArgumentsReachTheProgramExactly) {
  const std::string show = "printf '<%s>' \"$@\"; echo";
  const Finished run = lockstep({"run", "-n", "2", "sh", "-c", show, "prog", "--nnodes", "9",
                                 "--local-rank", "x", "--", "-y", "a b", "", "${local_rank}$$"});
  EXPECT_EQ(run.code, 0) << run.err;
  const std::string expected = "<--nnodes><9><--local-rank><x><--><-y><a b><><${local_rank}$$>";
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre(expected, expected));
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(RunTest, TheLegacyVerbPutsTheLocalRankBeforeTheArguments) {
  const base::TemporaryFolder folder;
  const std::string script = folder.path() / "show";
  std::ofstream(script) << "#!/bin/sh\necho \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_THAT(lines_of(lockstep({"launch", "-n", "2", script, "--epochs", "3"}).out),
              UnorderedElementsAre("--local-rank=0 --epochs 3", "--local-rank=1 --epochs 3"));
  EXPECT_EQ(lockstep({"launch", "--use_env", script, "--epochs", "3"}).out, "--epochs 3\n");
}

TEST(RunTest, Row2ExitsWithTheCodeOfTheCause) {
  EXPECT_EQ(run_shell({"-n", "2"}, "exit 0").code, 0);
  EXPECT_EQ(run_shell({"-n", "2"}, "test $RANK = 0 && exit 3; sleep 100").code, 3);
  EXPECT_EQ(run_shell({"-n", "2"}, "test $RANK = 1 && exit 255; sleep 100").code, 255);
  EXPECT_EQ(run_shell({"-n", "2"}, "test $RANK = 1 && kill -SEGV $$; sleep 100").code,
            128 + SIGSEGV);
  EXPECT_EQ(run_shell({"-n", "2"}, "test $RANK = 1 && kill -KILL $$; sleep 100").code,
            128 + SIGKILL);
}

TEST(RunTest, OneSuccessfulEndStopsNobody) {
  const Finished run = run_shell({"-n", "2"}, "test $RANK = 0 && exit 0; sleep 0.3; echo late");
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.out, "late\n");
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(RunTest, Row8WhatCannotBeStartedIsOnePlainError) {
  const base::TemporaryFolder folder;
  const auto file = [&](const std::string& name, const std::string& content, bool executable) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << content;
    if (executable) std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{"no-such-program"}, 127, "was not found, neither here nor on PATH"},
      {{folder.path() / "absent"}, 127, "does not exist"},
      {{folder.path() / "absent.py"}, 127, "does not exist"},
      {{folder.path()}, 126, "is a folder"},
      {{file("plain", "hello", false)}, 126, "is not executable"},
      {{file("bad-interpreter", "#!/no/such/interpreter\n", true)}, 126, "/no/such/interpreter"},
      {{file("windows", "#!/bin/sh\r\necho\r\n", true)}, 126, "Windows line ends"},
      {{file("neither", "\x01\x02\x03 neither program nor script", true)}, 126, "cannot execute"},
      {{"-n", "0", "true"}, 2, "number of workers"},
      {{"-n", "gpu", "true"}, 2, "GPU"},
      {{}, 2, "no program to run"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments = {"run", "-n", "2"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Finished run = lockstep(arguments, {{"CUDA_VISIBLE_DEVICES", "-1"}});
    EXPECT_EQ(run.code, one.code) << run.err;
    EXPECT_THAT(run.err, HasSubstr(one.text));
    EXPECT_LE(lines_of(run.err).size(), 2u) << run.err;
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST(RunTest, PythonScriptsAndModulesGoToPython) {
  const base::TemporaryFolder folder;
  const std::string python = folder.path() / "python";
  std::ofstream(python) << "#!/bin/sh\necho python \"$@\"\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string script = folder.path() / "train.py";
  std::ofstream(script) << "#!/bin/sh\necho itself \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Launched::Variables variables = {{"PYTHON_EXEC", python}};
  EXPECT_EQ(lockstep({"run", script, "-x"}, variables).out, concat("python -u ", script, " -x\n"));
  EXPECT_EQ(lockstep({"run", "-m", "package.train", "-x"}, variables).out,
            "python -u -m package.train -x\n");
  EXPECT_EQ(lockstep({"run", "--no-python", script, "-x"}, variables).out, "itself -x\n");
  EXPECT_EQ(lockstep({"run", script}, {{"PYTHON_EXEC", "/no/python"}}).code, 127);
}

TEST(RunTest, RestartsTheWholeGroupAndReportsEveryAttempt) {
  const Finished run = run_shell({"-n", "2", "--max-restarts", "2"},
                                 "echo attempt $TORCHELASTIC_RESTART_COUNT $LOCKSTEP_ATTEMPT; test "
                                 "$RANK = 1 && exit $((5 + LOCKSTEP_ATTEMPT)); sleep 100");
  EXPECT_EQ(run.code, 7);
  EXPECT_THAT(lines_of(run.out), Contains("attempt 2 2"));
  EXPECT_THAT(run.err, HasSubstr("attempt 0 failed"));
  for (const char* code : {"exit code 5", "exit code 6", "exit code 7"})
    EXPECT_THAT(run.err, HasSubstr(code));
  const Finished healed =
      run_shell({"-n", "2", "--max-restarts", "3"}, "test $LOCKSTEP_ATTEMPT -ge 1");
  EXPECT_EQ(healed.code, 0) << healed.err;
}

TEST(RunTest, D65ThreadsAreDividedAmongWorkersUnlessTheUserSaid) {
  EXPECT_EQ(launch::threads_per_worker(8, 8, 3), 2);
  EXPECT_EQ(launch::threads_per_worker(2, 2, 4), 1);
  EXPECT_EQ(launch::threads_per_worker(1, 64, 1), 1) << "a control group of one processor";
  EXPECT_EQ(launch::threads_per_worker(64, 64, 1), std::nullopt);
  const Finished run = run_shell({"-n", "4"}, "echo $OMP_NUM_THREADS", {{"LOCKSTEP_LOG", "info"}});
  EXPECT_THAT(lines_of(run.out),
              testing::Each(std::to_string(std::max(1, base::usable_cpus() / 4))));
  EXPECT_THAT(run.err, HasSubstr("OMP_NUM_THREADS is not set"));
  EXPECT_EQ(run.err.find("OMP_NUM"), run.err.rfind("OMP_NUM")) << "said more than once";
  EXPECT_THAT(
      lines_of(run_shell({"-n", "2"}, "echo $OMP_NUM_THREADS", {{"OMP_NUM_THREADS", "7"}}).out),
      testing::Each("7"));
}

TEST(RunTest, VirtualLocalRanksSeeOneDeviceEach) {
  const std::string show = "echo $LOCAL_RANK $RANK $CUDA_VISIBLE_DEVICES";
  EXPECT_THAT(lines_of(run_shell({"-n", "2", "--virtual-local-rank"}, show).out),
              UnorderedElementsAre("0 0 0", "0 1 1"));
  EXPECT_THAT(lines_of(run_shell({"-n", "2", "--virtual-local-rank"}, show,
                                 {{"CUDA_VISIBLE_DEVICES", "5,GPU-abc"}})
                           .out),
              UnorderedElementsAre("0 0 5", "0 1 GPU-abc"));
}

TEST(RunTest, OnlyTheFirstWorkerReadsStandardInput) {
  const Finished run = run_shell({"-n", "2"}, "test -c /dev/stdin && echo rank $RANK");
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre("rank 0", "rank 1"));
}

TEST(RunTest, AWorkersErrorFileIsReportedAndHandedUp) {
  const base::TemporaryFolder folder;
  const std::string mine = folder.path() / "error.json";
  const std::string script =
      "test $RANK = 1 || sleep 100; printf '{\"message\":{\"message\":\"ValueError: bad "
      "batch\",\"extraInfo\":{\"timestamp\":\"1\"}}}' > "
      "$TORCHELASTIC_ERROR_FILE; exit 4";
  const Finished run = run_shell({"-n", "2"}, script, {{"TORCHELASTIC_ERROR_FILE", mine}});
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("ValueError: bad batch"));
  std::ifstream in(mine);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(content, HasSubstr("ValueError: bad batch"));
  EXPECT_THAT(content, HasSubstr("\"errorCode\":4"));
}

TEST(RunTest, Row14NothingIsLeftBehind) {
  const base::TemporaryFolder folder;
  const Launched::Variables variables = {{"TMPDIR", folder.path()}};
  run_shell({"-n", "2"}, "touch \"$(dirname \"${LOCKSTEP_RENDEZVOUS#unix:}\")/left\"", variables);
  run_shell({"-n", "2"}, "exit 3", variables);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  Launched killed({"run", "sh", "-c", "echo up; sleep 300"}, variables);
  ASSERT_TRUE(killed.wait_for("up"));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.offspring_left(base::Deadline::in(Launched::kPatience)), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunTest, D43AFixedPortIsGivenToOneJobOnly) {
  const base::HeldPort free;  // a number that nobody else is given
  const std::string port = std::to_string(free.number());
  Launched first({"run", "--master-port", port, "sh", "-c", "echo $MASTER_PORT; sleep 300"});
  ASSERT_TRUE(first.wait_for(port));
  const Finished second = lockstep({"run", "--master-port", port, "true"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr(concat("port ", port, " is taken by another lockstep job")));
  EXPECT_THAT(second.err, HasSubstr(concat("pid ", first.pid())));
  first.signal(SIGTERM);
  first.finish();
  EXPECT_EQ(lockstep({"run", "--master-port", port, "true"}).code, 0);
}

TEST(RunTest, VersionHelpAndUnknownVerbs) {
  EXPECT_THAT(lockstep({"--version"}).out, testing::StartsWith("lockstep "));
  EXPECT_THAT(lockstep({}).out, HasSubstr("run"));
  EXPECT_THAT(lockstep({"run", "--help"}).out, HasSubstr("--nproc-per-node"));
  EXPECT_THAT(lockstep({"run", "--print-completion", "bash"}).out,
              HasSubstr("complete -o filenames -F _lockstep lockstep"));
  EXPECT_EQ(lockstep({"walk"}).code, 2);
}

}  // namespace lockstep::test
