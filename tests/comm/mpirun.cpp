#include "comm/mpirun.h"

#include "base/concat.h"
#include "support/reexec.h"

namespace lockstep::test {

std::vector<MpiLauncher> mpi_launchers() {
  return {{"OpenMpi", LOCKSTEP_OPEN_MPI}, {"Mpich", LOCKSTEP_MPICH}};
}

Launched mpirun(const MpiLauncher& launcher, int ranks, const std::string& child,
                const std::vector<std::string>& arguments, const std::vector<std::string>& wrapper,
                const std::vector<std::string>& options, const std::vector<std::string>& before) {
  Program command;
  const auto add = [&](const std::vector<std::string>& words) {
    command.words.insert(command.words.end(), words.begin(), words.end());
  };
  add(before);
  add({launcher.program});
  add(options);
  add({"-n", std::to_string(ranks)});
  add(wrapper);
  add({this_binary(), "--child=" + child});
  add(arguments);
  // Open MPI asks before it runs as root or puts more ranks on a machine than it has cores.
  return Launched(command, {{"OMP_NUM_THREADS", "1"},
                            {"LOCKSTEP_MPI_MODULE", LOCKSTEP_MODULES},
                            {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                            {"OMPI_MCA_rmaps_base_oversubscribe", "1"}});
}

}  // namespace lockstep::test
