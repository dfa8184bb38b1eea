#pragma once

namespace lockstep::comm::mpi {

/// From here on the end of the process is Runtime's business. Until then, under MPICH's mpiexec, an
/// exit with an error is told to it: unlike Open MPI's mpirun, it lets the other ranks wait for
/// ever for one that exits before MPI_Init. (Death by a signal it notices itself.)
void mpi_is_up() noexcept;

}  // namespace lockstep::comm::mpi
