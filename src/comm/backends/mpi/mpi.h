#pragma once
#include "comm/registry.h"

namespace lockstep::comm::mpi {

/// MPI, for CPU tensors: whichever library the launcher (mpirun, mpiexec) belongs to, loaded on
/// demand. Its calls block until they are done, point-to-point ones apart.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

/// See BackendEntry::gather_before_meeting.
std::vector<std::string> gather_before_meeting(const std::string& mine,
                                               std::chrono::milliseconds limit);

}  // namespace lockstep::comm::mpi
