#pragma once
#include <ostream>
#include <string>
#include <vector>

#include "launch/launched.h"

namespace lockstep::test {

/// An mpirun of this machine; `program` is empty where it or our module is missing.
struct MpiLauncher {
  std::string name;  ///< "OpenMpi" or "Mpich"
  std::string program;
  friend std::ostream& operator<<(std::ostream& out, const MpiLauncher& launcher) {
    return out << launcher.name;
  }
};

/// Of both families, found or not.
std::vector<MpiLauncher> mpi_launchers();

/// `BEFORE mpirun OPTIONS -n RANKS WRAPPER BINARY --child=CHILD ARGUMENTS` of this test binary,
/// which finds our modules in the build's lib/. `wrapper` and `before` are programs that execute
/// the rest of their command lines.
Launched mpirun(const MpiLauncher& launcher, int ranks, const std::string& child,
                const std::vector<std::string>& arguments = {},
                const std::vector<std::string>& wrapper = {},
                const std::vector<std::string>& options = {},
                const std::vector<std::string>& before = {});

}  // namespace lockstep::test
