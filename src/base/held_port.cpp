#include "base/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace {

// Returns the errno, 0 when bound. IPv6 sockets take IPv4 too, as the servers that use the port do.
int bind_any(int family, std::uint16_t port, Fd& socket) {
  socket = Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
               ? 0
               : errno;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
             ? 0
             : errno;
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw os_error("cannot read a port");
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

HeldPort::HeldPort(std::uint16_t port) {
  int error = bind_any(AF_INET6, port, socket_);
  // No IPv6 on this host, or it is switched off.
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) error = bind_any(AF_INET, port, socket_);
  if (error == EADDRINUSE)
    throw UsageError(concat("port ", port, " is in use by another program on this host"),
                     "choose another port, or leave it out to get a free one");
  if (error == EACCES)
    throw UsageError(concat("port ", port, " may not be used without privileges"),
                     "choose a port above 1023");
  if (error != 0) throw os_error(concat("cannot keep port ", port), error);
  number_ = port_of(socket_.get());
}

}  // namespace lockstep::base
