#pragma once
#include <string>

#include "base/deadline.h"
#include "rendezvous/meet.h"

namespace lockstep::comm {

/// Collective. The meeting of ranks whose launcher connects them (mpirun) but names no place: rank
/// 0 serves the store where the others reach it, on a socket of this user where all run on one
/// host, and tells them through the launcher's connection, with a token for the job where it has
/// none. `launcher` is for errors. Throws UsageError when no backend has such a connection, and
/// RendezvousError.
rendezvous::Meeting meet_through_launcher(rendezvous::Member self, const std::string& launcher,
                                          base::Deadline deadline);

}  // namespace lockstep::comm
