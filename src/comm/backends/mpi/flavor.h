#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"

namespace lockstep::comm::mpi {

/// The two families of MPI libraries; members of one share an ABI.
enum class Flavor { kOpenMpi, kMpich };

/// As a person knows it: "Open MPI", "MPICH".
const char* name_of(Flavor flavor);

/// The file that serves it: "liblockstep_mpi_openmpi.so".
std::string module_file(Flavor flavor);

/// Whose launcher started this process, by the variables it left; nothing when none did.
std::optional<Flavor> launched_by(const base::Env& env);

/// Which one wrote this text, as MPI_Get_library_version gives it.
std::optional<Flavor> flavor_of_version(const std::string& text);

/// Where the module may lie, the best guess first: LOCKSTEP_MPI_MODULE (the file, or its folder)
/// alone where it is set; else the folder of this code (`here`), lib/ beside that one, and where
/// lockstep was configured to be installed.
std::vector<std::filesystem::path> module_candidates(Flavor flavor, const base::Env& env,
                                                     const std::filesystem::path& here);

}  // namespace lockstep::comm::mpi
