#include "rendezvous/member.h"

#include "base/concat.h"

namespace lockstep::rendezvous {

std::string Member::text() const {
  if (rank < 0) return base::concat("launcher (host ", host, ", pid ", pid, ")");
  return base::concat("rank ", rank, " (host ", host, ", pid ", pid, ")");
}

}  // namespace lockstep::rendezvous
