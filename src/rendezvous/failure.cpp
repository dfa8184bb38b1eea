#include "rendezvous/failure.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace lockstep::rendezvous {

void raise(const Failure& failure, const Member& self, const std::string& op) {
  ErrorContext context{.op = op, .peer = failure.peer};
  if (self.rank >= 0) context.rank = self.rank;
  if (self.rank >= 0 && self.world_size > 0) context.world_size = self.world_size;
  switch (failure.kind) {
    case Failure::kUsage:
      throw UsageError(failure.happened, failure.remedy, std::move(context));
    case Failure::kTimeout:
      throw TimeoutError(failure.happened, failure.remedy, std::move(context));
    case Failure::kPeerLost:
      throw PeerLost(failure.happened, failure.remedy, std::move(context));
    case Failure::kRendezvous:
      break;
  }
  throw RendezvousError(failure.happened, failure.remedy, std::move(context));
}

std::string seconds(std::chrono::steady_clock::duration time) {
  const double count = std::chrono::duration<double>(time).count();
  std::ostringstream text;
  if (count < 10) {
    text << std::setprecision(2) << count << " s";
  } else {
    text << std::llround(count) << " s";
  }
  return std::move(text).str();
}

}  // namespace lockstep::rendezvous
