#include "base/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace {

constexpr int kBacklog = 4096;

const sockaddr_in* as_ipv4(const SocketAddress& address) {
  return address.family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(address.raw())
                                     : nullptr;
}

const sockaddr_in6* as_ipv6(const SocketAddress& address) {
  return address.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address.raw())
                                      : nullptr;
}

// A Unix path in the form bind and connect take. A path over the limit is reached through its
// folder's descriptor, whose name under /proc is short.
struct UnixName {
  sockaddr_un name{};
  Fd folder;
  int error = 0;

  explicit UnixName(const std::string& path) {
    name.sun_family = AF_UNIX;
    std::string reachable = path;
    if (reachable.size() >= sizeof name.sun_path) {
      const std::filesystem::path whole(path);
      folder = Fd(::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!folder) error = errno;
      reachable = concat("/proc/self/fd/", folder.get(), "/", whole.filename().string());
      if (error == 0 && reachable.size() >= sizeof name.sun_path) error = ENAMETOOLONG;
      if (error != 0) return;
    }
    std::memcpy(name.sun_path, reachable.c_str(), reachable.size() + 1);
  }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&name); }
};

void set_option(int fd, int level, int option, int value) {
  // A kernel without the option still makes a working connection.
  [[maybe_unused]] const int ignored = ::setsockopt(fd, level, option, &value, sizeof value);
}

int call_with_name(const SocketAddress& address, int fd,
                   int (*call)(int, const sockaddr*, socklen_t)) {
  if (address.family() != AF_UNIX) return call(fd, address.raw(), address.size()) == 0 ? 0 : errno;
  const UnixName unix_name(address.path());
  if (unix_name.error != 0) return unix_name.error;
  return call(fd, unix_name.raw(), sizeof unix_name.name) == 0 ? 0 : errno;
}

// On an idle local port in the ephemeral range a connection attempt can meet itself.
bool connected_to_itself(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) return false;
  if (here.ss_family != AF_INET && here.ss_family != AF_INET6) return false;
  return here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

}  // namespace

SocketAddress SocketAddress::from(const sockaddr* address, socklen_t size) {
  SocketAddress result;
  std::memcpy(&result.storage_, address, std::min<std::size_t>(size, sizeof result.storage_));
  result.size_ = size;
  if (address->sa_family == AF_UNIX && size > offsetof(sockaddr_un, sun_path)) {
    const auto* name = reinterpret_cast<const sockaddr_un*>(address);
    result.path_.assign(name->sun_path,
                        ::strnlen(name->sun_path, size - offsetof(sockaddr_un, sun_path)));
  }
  return result;
}

std::optional<SocketAddress> SocketAddress::ip(const std::string& literal, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(literal.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return std::nullopt;
  const SocketAddress address = from(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

SocketAddress SocketAddress::unix_path(std::string path) {
  SocketAddress result;
  result.storage_.ss_family = AF_UNIX;
  result.path_ = std::move(path);
  return result;
}

std::uint16_t SocketAddress::port() const {
  if (const auto* ipv4 = as_ipv4(*this)) return ntohs(ipv4->sin_port);
  if (const auto* ipv6 = as_ipv6(*this)) return ntohs(ipv6->sin6_port);
  return 0;
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
}

bool SocketAddress::is_loopback() const {
  if (const auto* ipv4 = as_ipv4(*this)) return (ntohl(ipv4->sin_addr.s_addr) >> 24) == 127;
  if (const auto* ipv6 = as_ipv6(*this)) return IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr);
  return family() == AF_UNIX;
}

bool SocketAddress::is_wildcard() const {
  if (const auto* ipv4 = as_ipv4(*this)) return ipv4->sin_addr.s_addr == htonl(INADDR_ANY);
  if (const auto* ipv6 = as_ipv6(*this)) return IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr);
  return false;
}

bool SocketAddress::is_link_local() const {
  if (const auto* ipv4 = as_ipv4(*this)) return (ntohl(ipv4->sin_addr.s_addr) >> 16) == 0xa9fe;
  if (const auto* ipv6 = as_ipv6(*this)) return IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr);
  return false;
}

std::string SocketAddress::host() const {
  if (family() == AF_UNIX) return path_;
  char text[NI_MAXHOST] = "";
  ::getnameinfo(raw(), size_, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) return "unix:" + path_;
  if (family() == AF_INET6) return concat("[", host(), "]:", port());
  return concat(host(), ":", port());
}

SocketResult open_listener(const SocketAddress& address) {
  SocketResult result{
      Fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!result.fd) return {Fd(), errno};
  const int fd = result.fd.get();
  if (address.family() == AF_UNIX) {
    // Linux takes the mode of the file that bind makes from the socket: no moment when it is open
    // to all.
    if (::fchmod(fd, S_IRUSR | S_IWUSR) != 0) return {Fd(), errno};
  } else {
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (address.family() == AF_INET6)
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, address.is_wildcard() ? 0 : 1);
  if (const int error = call_with_name(address, fd, ::bind)) return {Fd(), error};
  if (::listen(fd, kBacklog) != 0) return {Fd(), errno};
  return result;
}

void adopt_listener(const Fd& fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
    throw UsageError(concat("descriptor ", fd.get(), " is not a stream socket"),
                     "hand over a bound TCP or Unix socket");
  ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  if (::listen(fd.get(), kBacklog) != 0)
    throw os_error(concat("cannot listen on descriptor ", fd.get()));
}

SocketResult connect_to(const SocketAddress& address, Deadline deadline) {
  SocketResult result{
      Fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!result.fd) return {Fd(), errno};
  const int fd = result.fd.get();
  int error = call_with_name(address, fd, ::connect);
  if (error == EINPROGRESS || error == EINTR) {
    pollfd wait{fd, POLLOUT, 0};
    if (!poll_until({&wait, 1}, deadline)) return {Fd(), ETIMEDOUT};
    socklen_t size = sizeof error;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error == 0 && connected_to_itself(fd)) error = ECONNREFUSED;
  if (error != 0) return {Fd(), error};
  return result;
}

SocketResult accept_from(int listener) {
  for (;;) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return {std::move(fd), 0};
    // ECONNABORTED: that one gave up while it waited; the next may be there.
    if (errno != EINTR && errno != ECONNABORTED) return {Fd(), errno};
  }
}

SocketAddress bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    throw os_error("cannot read a socket's address");
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&storage), size);
}

void watch_for_silence(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Idle connections: probes after 4, 6, 8, ... s; 12 s without an answer end it. Data that nobody
  // acknowledges ends it after the same 12 s.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 12'000);
}

Transfer receive_some(int fd, std::span<std::byte> into) {
  for (;;) {
    const auto count = ::recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (count > 0) return {.count = static_cast<std::size_t>(count)};
    if (count == 0) return {.ended = true};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.would_block = true};
    return {.ended = true, .error = errno};
  }
}

Transfer send_some(int fd, std::span<const std::byte> bytes) {
  for (;;) {
    const auto count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return {.count = static_cast<std::size_t>(count)};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.would_block = true};
    return {.ended = true, .error = errno};
  }
}

void finish_sending(int fd) noexcept { ::shutdown(fd, SHUT_WR); }

bool poll_until(std::span<pollfd> fds, std::optional<Deadline> deadline) {
  for (;;) {
    const int ready = ::poll(fds.data(), fds.size(), deadline ? deadline->poll_timeout() : -1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw os_error("cannot wait for descriptors");
    if (deadline && deadline->expired()) return false;
  }
}

}  // namespace lockstep::base
