#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/backends/mpi/flavor.h"
#include "comm/registry.h"
#include "lockstep/error.h"

namespace lockstep::comm::mpi {
namespace {

using base::Env;
using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

std::optional<Flavor> launched(Variables variables) {
  return launched_by(Env(std::move(variables)));
}

}  // namespace

TEST(MpiFlavorTest, TheLaunchersVariablesDecide) {
  EXPECT_EQ(launched({{"OMPI_COMM_WORLD_RANK", "1"}, {"PMIX_RANK", "1"}}), Flavor::kOpenMpi);
  EXPECT_EQ(launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), Flavor::kMpich);
  EXPECT_EQ(launched({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}}), Flavor::kOpenMpi);
  EXPECT_EQ(launched({{"OMPI_COMM_WORLD_RANK", "1"}, {"PMI_RANK", "0"}}), Flavor::kOpenMpi);
  EXPECT_EQ(launched({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), std::nullopt);
}

TEST(MpiFlavorTest, AProgramsOwnMpiIsKnownByItsVersion) {
  EXPECT_EQ(flavor_of_version("Open MPI v4.1.4, package: Debian OpenMPI"), Flavor::kOpenMpi);
  EXPECT_EQ(flavor_of_version("MPICH Version:\t4.0.2\n"), Flavor::kMpich);
  EXPECT_EQ(flavor_of_version("Intel(R) MPI Library 2021.13 for Linux* OS"), Flavor::kMpich);
  EXPECT_EQ(flavor_of_version("something else"), std::nullopt);
}

TEST(MpiFlavorTest, AGivenModuleIsTheOnlyCandidate) {
  const Env file(Variables{{"LOCKSTEP_MPI_MODULE", "/opt/lib/mine.so"}});
  EXPECT_THAT(module_candidates(Flavor::kMpich, file, "/usr/bin"), ElementsAre("/opt/lib/mine.so"));
  const Env folder(Variables{{"LOCKSTEP_MPI_MODULE", "/opt/lib"}});
  EXPECT_THAT(module_candidates(Flavor::kMpich, folder, "/usr/bin"),
              ElementsAre("/opt/lib/liblockstep_mpi_mpich.so"));
  const auto found = module_candidates(Flavor::kOpenMpi, Env(Variables{}), "/opt/bin");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], "/opt/bin/liblockstep_mpi_openmpi.so");
  EXPECT_EQ(found[1], "/opt/lib/liblockstep_mpi_openmpi.so");
}

TEST(MpiFlavorTest, WithoutAnMpiLauncherTheBackendSaysWhatToDo) {
  try {
    choose_backend("mpi", {.store = nullptr, .rank = 0, .size = 2});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no MPI launcher started this process"));
    EXPECT_THAT(error.what(), HasSubstr("start it by mpirun"));
  }
}

}  // namespace lockstep::comm::mpi
