#include "base/route.h"

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {

SocketAddress address_towards(const SocketAddress& target) {
  // Connecting a datagram socket only looks the route up.
  const Fd fd(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) throw os_error("cannot make a socket");
  SocketAddress somewhere = target;
  if (somewhere.port() == 0) somewhere.set_port(9);
  if (::connect(fd.get(), somewhere.raw(), somewhere.size()) != 0)
    throw os_error(concat("no route to ", target.host()));
  SocketAddress own = bound_address(fd.get());
  own.set_port(0);
  return own;
}

}  // namespace lockstep::base
