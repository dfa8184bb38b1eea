#include "comm/backends/gloo/gloo.h"

#include <gloo/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/pair.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep::comm::gloo {
namespace {

/// ProcessGroupGloo that can be stopped from outside.
class Gloo : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  /// Closing a pair wakes nobody who waits on one of its buffers; an exception on it does, and
  /// closes it too. All devices made here are TCP ones.
  void abort() override {
    for (const auto& context : contexts_) {
      for (int rank = 0; rank < getSize(); ++rank) {
        if (rank == getRank()) continue;
        auto* pair = static_cast<::gloo::transport::tcp::Pair*>(context->getPair(rank).get());
        if (pair != nullptr) pair->signalExceptionExternal("connection closed: a member is gone");
      }
    }
  }
};

}  // namespace

std::string why_not(const BackendContext&) { return ""; }

c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context) {
  auto options = c10d::ProcessGroupGloo::Options::create(context.timeout);
  // Never by host name: it may resolve to loopback, to nothing, or to another interface.
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(
      context.address.empty() ? "127.0.0.1" : context.address));
  return c10::make_intrusive<Gloo>(context.store, context.rank, context.size, options);
}

}  // namespace lockstep::comm::gloo
