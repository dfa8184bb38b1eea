#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/client.h"
#include "rendezvous/member.h"
#include "rendezvous/server.h"

namespace lockstep::rendezvous {

/// A world that is complete.
struct Meeting {
  std::shared_ptr<Server> server;  ///< on rank 0 alone; the store lives as long as it
  std::shared_ptr<Client> client;
  std::vector<Member> members;  ///< by rank
};

/// Collective over the job: rank 0 serves the store, every rank connects and waits for all.
///
/// `init_method` is the same on every rank:
///   tcp://HOST:PORT   an address of rank 0's host and a free port there
///   unix:PATH         for ranks of one host
///   file:///PATH      a file on a file system all hosts share: rank 0 writes there where it
///   listens. One of
///                     a job that is over is replaced, one in use and one that is something else
///                     are refused
///
/// Throws UsageError (init method, rank, world size), RendezvousError (why this process cannot
/// join, or what disagrees) and TimeoutError (who is missing).
Meeting meet(const std::string& init_method, const Member& self, base::Deadline deadline);

}  // namespace lockstep::rendezvous
