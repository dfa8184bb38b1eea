#include "base/port_claim.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace {

// The process behind a listening Unix socket; 0 when it does not tell.
pid_t owner_of(const sockaddr_un& address, socklen_t size) {
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred owner{};
  socklen_t owner_size = sizeof owner;
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return 0;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &owner, &owner_size) != 0) return 0;
  return owner.pid;
}

}  // namespace

PortClaim::PortClaim(std::uint16_t port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract: no file, no trace after the process.
  const std::string name = concat("lockstep-port-", port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  socket_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_) throw os_error("cannot make a socket");
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    ::listen(socket_.get(), 1);
    return;
  }
  if (errno != EADDRINUSE) throw os_error(concat("cannot claim port ", port));
  const pid_t owner = owner_of(address, size);
  throw UsageError(concat("port ", port, " is taken by another lockstep job on this host",
                          owner != 0 ? concat(" (pid ", owner, ")") : std::string()),
                   "choose another port, or leave it out to get a free one");
}

}  // namespace lockstep::base
