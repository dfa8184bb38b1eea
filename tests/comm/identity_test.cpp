#include "comm/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "comm/slurm_lists.h"

namespace lockstep::comm {
namespace {

using base::Env;
using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

Env recorded(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TEST_FIXTURES) + "/" + name);
  EXPECT_TRUE(file) << name;
  Variables variables;
  for (std::string line; std::getline(file, line);)
    if (const auto equals = line.find('='); equals != std::string::npos)
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  return Env(variables);
}

/// The message of the UsageError that detection must end in.
std::string refusal(const Variables& variables, std::optional<int> rank = {},
                    std::optional<int> size = {}) {
  try {
    detect(Env(variables), rank, size);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST(IdentityTest, RecordedLaunchersAreUnderstood) {
  for (int rank = 0; rank < 2; ++rank) {
    const std::string suffix = "_" + std::to_string(rank) + ".txt";
    for (const auto& [file, launcher] : std::map<std::string, std::string>{
             {"torchrun", "torchrun"}, {"ompi5", "Open MPI"}, {"mpich", "MPICH"}}) {
      const Identity found = detect(recorded(file + suffix));
      EXPECT_EQ(found.place.rank, rank) << file;
      EXPECT_EQ(found.place.world_size, 2) << file;
      EXPECT_EQ(found.place.local_rank, rank) << file;
      EXPECT_EQ(found.place.local_world_size, 2) << file;
      EXPECT_EQ(found.place.launcher, launcher);
    }
  }
}

TEST(IdentityTest, RanksOfOneHostMeetWithoutAnAddress) {
  const Identity first = detect(recorded("ompi5_0.txt")), second = detect(recorded("ompi5_1.txt"));
  EXPECT_EQ(first.meeting, second.meeting);
  EXPECT_THAT(first.meeting, HasSubstr("unix:/"));
  EXPECT_EQ(first.job_id, "prterun-vm-15323@1");
}

TEST(IdentityTest, TorchrunsAgentOwnsThePort) {
  EXPECT_EQ(detect(recorded("torchrun_0.txt")).agent_store, "127.0.0.1:29512");
  EXPECT_EQ(detect(recorded("torchrun_0.txt")).meeting, "");
}

TEST(IdentityTest, NothingSetIsAWorldOfOne) {
  const Identity found = detect(Env(Variables{}));
  EXPECT_EQ(found.place.world_size, 1);
  EXPECT_EQ(found.place.launcher, "alone");
  EXPECT_EQ(found.warning, "");
}

TEST(IdentityTest, ABatchScriptOutsideAStepRunsAloneWithAWarning) {
  const Identity found =
      detect(Env({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
  EXPECT_EQ(found.place.world_size, 1);
  EXPECT_THAT(found.warning, HasSubstr("srun"));
}

TEST(IdentityTest, ASlurmStepIsReadWithUnevenNodes) {
  Variables step{{"SLURM_STEP_ID", "0"},
                 {"SLURM_JOB_ID", "7"},
                 {"SLURM_PROCID", "3"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_LOCALID", "0"},
                 {"SLURM_NODEID", "1"},
                 {"SLURM_STEP_NUM_NODES", "2"},
                 {"SLURM_NTASKS", "8"},
                 {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                 {"SLURM_STEP_NODELIST", "n[1-2]"}};
  const Identity found = detect(Env(step));
  EXPECT_EQ(found.place.rank, 3);
  EXPECT_EQ(found.place.world_size, 4);
  EXPECT_EQ(found.place.local_world_size, 1);
  EXPECT_EQ(found.place.node_rank, 1);
  EXPECT_THAT(found.meeting, HasSubstr("tcp://n1:"));
  // mpirun inside a Slurm job: every rank inherits the daemon's SLURM_PROCID.
  step.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(detect(Env(step)).place.rank, 1);
}

TEST(IdentityTest, HalfSetAndContradictorySetsAreRefusedByName) {
  EXPECT_THAT(refusal({{"RANK", "0"}, {"LOCAL_RANK", "0"}}), HasSubstr("WORLD_SIZE is not"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("RANK=2 is outside the world of WORLD_SIZE=2"));
  EXPECT_THAT(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK=-1"));
  EXPECT_THAT(refusal({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK='one'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
      HasSubstr("LOCAL_RANK=2"));
  EXPECT_THAT(refusal({{"RANK", "0"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "0"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "h"}}),
              HasSubstr("MASTER_PORT is not"));
  EXPECT_THAT(refusal({}, 2, 2), HasSubstr("rank 2 is outside"));
  EXPECT_THAT(refusal({}, 0, std::nullopt), HasSubstr("rank was given without world_size"));
  EXPECT_THAT(refusal({}, std::nullopt, 2), HasSubstr("world_size was given without rank"));
  EXPECT_THAT(refusal({}, 0, 0), HasSubstr("world_size is 0"));
}

TEST(IdentityTest, APodsRankIsNotAWorkers) {
  const Variables pod{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PET_NPROC_PER_NODE", "2"}, {"PET_NNODES", "2"}};
  EXPECT_THAT(refusal(pod), HasSubstr("lockstep run"));
  Variables single = pod;
  single["PET_NPROC_PER_NODE"] = "1";
  EXPECT_EQ(detect(Env(single)).place.rank, 1);
  EXPECT_THAT(refusal({{"PET_NNODES", "2"}}), HasSubstr("lockstep run"));
}

TEST(IdentityTest, ExplicitValuesWin) {
  const Env env({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}});
  EXPECT_EQ(detect(env, 2, 3).place.rank, 2);
  EXPECT_EQ(detect(env, 2, 3).place.world_size, 3);
  EXPECT_EQ(detect(env, 1, std::nullopt).place.rank, 1);
}

TEST(SlurmListsTest, TasksPerNode) {
  EXPECT_THAT(parse_tasks_per_node("3,1"), ElementsAre(3, 1));
  EXPECT_THAT(parse_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* bad : {"", "x", "2(3)", "2(x", "2(x0)", "0", "2,,1", "1(x99999999)"})
    EXPECT_THROW(parse_tasks_per_node(bad), UsageError) << bad;
}

TEST(SlurmListsTest, NodeNames) {
  EXPECT_THAT(parse_node_list("n[1-2],x[007-009,12]"),
              ElementsAre("n1", "n2", "x007", "x008", "x009", "x12"));
  EXPECT_THAT(parse_node_list("alpha,beta"), ElementsAre("alpha", "beta"));
  EXPECT_THAT(parse_node_list("a[1-2]b,c"), ElementsAre("a1b", "a2b", "c"));
  for (const char* bad : {"", "n[1-2", "n[2-1]", "n[a-b]", "n[1-99999999]", ",a"})
    EXPECT_THROW(parse_node_list(bad), UsageError) << bad;
}

}  // namespace lockstep::comm
