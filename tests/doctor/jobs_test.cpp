// Jobs that fail for one known reason each; `lockstep doctor` must find it in what they leave.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>

#include "base/concat.h"
#include "base/file.h"
#include "launch/launched.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using base::concat;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kOddOne = 1;
constexpr int kRounds = 3;

void misbehave(const std::string& how, Group& world, const at::Tensor& tensor) {
  if (how == "mismatch") world.all_reduce(at::ones({5}));
  if (how == "skip") world.broadcast(tensor, 0);
  if (how == "kill") ::raise(SIGKILL);
  if (how == "stop") ::raise(SIGSTOP);
}

// Argument: what rank 1 does after some rounds.
const ChildProgram failing("fail-after-rounds", [](int, char** argv) {
  // The launcher stops the survivors; here they are to tell what they saw.
  std::signal(SIGTERM, SIG_IGN);
  const std::string how = argv[1];
  Group world = init_process_group({.timeout = std::chrono::seconds(how == "stop" ? 1 : 20)});
  const at::Tensor tensor = at::ones({4});
  try {
    for (int round = 0; round <= kRounds; ++round) {
      if (round == kRounds && world.rank() == kOddOne) {
        if (how == "leave") break;
        misbehave(how, world, tensor);
      }
      world.all_reduce(tensor, ReduceOp::kAvg, {.tag = "mean"});
      world.barrier();
      world.broadcast(tensor, 0);
    }
    destroy_process_group();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
  return 0;
});

struct Diagnosed {
  Finished job;
  std::size_t records = 0;
  Finished doctor;
};

Diagnosed diagnose(const std::string& how) {
  const base::TemporaryFolder folder;
  Diagnosed found;
  found.job = Launched({"run", "-n", "3", this_binary(), "--child=fail-after-rounds", how},
                       {{"OMP_NUM_THREADS", "1"}, {"LOCKSTEP_FLIGHT_DIR", folder.path().string()}})
                  .finish();
  std::vector<std::string> words = {"doctor"};
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(fs::status(entry.path()).permissions(),
              fs::perms::owner_read | fs::perms::owner_write);
    words.push_back(entry.path().string());
  }
  found.records = words.size() - 1;
  EXPECT_GE(found.records, 1u) << found.job.err;
  EXPECT_THAT(found.job.err, HasSubstr(concat("\n  flight record: ", folder.path().string())));
  if (found.records > 0) found.doctor = lockstep(words);
  EXPECT_EQ(found.doctor.code, 0) << found.doctor.out << found.doctor.err;
  return found;
}

}  // namespace

TEST(FailedJobsTest, AnotherShapeOnOneRank) {
  const Diagnosed found = diagnose("mismatch");
  EXPECT_EQ(found.records, 3u);
  EXPECT_THAT(found.doctor.out,
              AllOf(ContainsRegex("different calls at number 10 of group world: ranks 0 and 2 "
                                  "called all_reduce.avg, float32.4., \"mean\". at "
                                  ".*jobs_test.cpp:[0-9]+, rank 1 called "
                                  "all_reduce.sum, float32.5.. at .*jobs_test.cpp:[0-9]+"),
                    HasSubstr("What differs is the shape.")));
}

TEST(FailedJobsTest, OneRankOutOfStep) {
  const Diagnosed found = diagnose("skip");
  EXPECT_THAT(found.doctor.out, AllOf(HasSubstr("ranks 0 and 2 called all_reduce("),
                                      HasSubstr("rank 1 called broadcast("),
                                      HasSubstr("What differs is the operation.")));
}

TEST(FailedJobsTest, AKilledRank) {
  const Diagnosed found = diagnose("kill");
  EXPECT_THAT(found.doctor.out,
              AllOf(ContainsRegex("rank 1 .host .*, pid [0-9]+. died without an error of its own"),
                    ContainsRegex("Its last call was broadcast.*, number 9 of group world, done"),
                    ContainsRegex("in all_reduce.*\"mean\".*, number 10")));
}

TEST(FailedJobsTest, AStoppedRank) {
  const Diagnosed found = diagnose("stop");
  EXPECT_THAT(found.doctor.out,
              AllOf(ContainsRegex("The process of rank 1 .* was stopped .T.\\. Its last call was "
                                  "broadcast.*, number 9"),
                    HasSubstr("kill -CONT ")));
}

TEST(FailedJobsTest, ARankWithFewerRounds) {
  const Diagnosed found = diagnose("leave");
  EXPECT_THAT(found.doctor.out,
              AllOf(ContainsRegex("rank 1 .* ended in order while others still called"),
                    HasSubstr("number 10")));
}

TEST(FailedJobsTest, LogFoldersHoldTheRecords) {
  const base::TemporaryFolder folder;
  const Finished job = Launched({"run", "-n", "3", "--log-dir", folder.path().string(),
                                 this_binary(), "--child=fail-after-rounds", "mismatch"},
                                {{"OMP_NUM_THREADS", "1"}})
                           .finish();
  int records = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    records += entry.path().filename().string().starts_with("flight-");
  EXPECT_EQ(records, 3) << job.err;
}

TEST(FailedJobsTest, AFolderThatCannotBeMadeCostsOnlyTheRecord) {
  const Finished job =
      Launched({"run", "-n", "3", this_binary(), "--child=fail-after-rounds", "mismatch"},
               {{"OMP_NUM_THREADS", "1"}, {"LOCKSTEP_FLIGHT_DIR", "/proc/none"}})
          .finish();
  EXPECT_EQ(job.code, 5);
  EXPECT_THAT(job.err, AllOf(HasSubstr("no flight record: "), HasSubstr("float32[5]"),
                             testing::Not(HasSubstr("\n  flight record: "))));
}

}  // namespace lockstep::test
