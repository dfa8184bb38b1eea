#include "comm/backends/mpi/flavor.h"

#include "base/concat.h"

namespace lockstep::comm::mpi {
namespace fs = std::filesystem;

const char* name_of(Flavor flavor) { return flavor == Flavor::kOpenMpi ? "Open MPI" : "MPICH"; }

std::string module_file(Flavor flavor) {
  return base::concat("liblockstep_mpi_", flavor == Flavor::kOpenMpi ? "openmpi" : "mpich", ".so");
}

std::optional<Flavor> launched_by(const base::Env& env) {
  // mpirun inside a job of another launcher sees that one's variables too, but its own are these.
  if (env.has("OMPI_COMM_WORLD_RANK")) return Flavor::kOpenMpi;
  if (env.has("PMI_RANK")) return Flavor::kMpich;
  // srun --mpi=pmix: MPICH as most systems have it speaks PMI; PMIx is Open MPI's.
  if (env.has("PMIX_RANK")) return Flavor::kOpenMpi;
  return std::nullopt;
}

std::optional<Flavor> flavor_of_version(const std::string& text) {
  if (text.find("Open MPI") != std::string::npos) return Flavor::kOpenMpi;
  for (const char* member : {"MPICH", "Intel", "MVAPICH", "CRAY"})
    if (text.find(member) != std::string::npos) return Flavor::kMpich;
  return std::nullopt;
}

std::vector<fs::path> module_candidates(Flavor flavor, const base::Env& env, const fs::path& here) {
  const std::string file = module_file(flavor);
  if (const auto given = env.text("LOCKSTEP_MPI_MODULE")) {
    const bool folder = !given->ends_with(".so");
    return {folder ? fs::path(*given) / file : fs::path(*given)};
  }
  return {here / file, here.parent_path() / "lib" / file, fs::path(LOCKSTEP_MODULE_FOLDER) / file};
}

}  // namespace lockstep::comm::mpi
