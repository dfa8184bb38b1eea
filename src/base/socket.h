#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace lockstep::base {

/// Where a stream socket listens: an IPv4 or IPv6 address with its port, or a Unix path.
class SocketAddress {
 public:
  /// From digits alone; nothing when `literal` is a name. Never asks a name service.
  static std::optional<SocketAddress> ip(const std::string& literal, std::uint16_t port);
  static SocketAddress unix_path(std::string path);
  static SocketAddress from(const sockaddr* address, socklen_t size);

  int family() const { return storage_.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
  bool is_wildcard() const;
  bool is_link_local() const;

  /// "10.0.0.1:29500", "[::1]:29500" or "unix:/path"; digits, never a name.
  std::string text() const;
  /// "10.0.0.1", "::1" or the path.
  std::string host() const;
  const std::string& path() const { return path_; }

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
  std::string path_;
};

/// The addresses of a name, or why there are none.
struct Resolution {
  std::vector<SocketAddress> addresses;
  std::string failure;
};

/// Looks up `host`; digits are taken as they are. The system's look-up cannot be interrupted: one
/// that outlives the deadline goes on in a thread of its own ("ls-resolve"), which touches nothing
/// of ours.
Resolution resolve(const std::string& host, std::uint16_t port, Deadline deadline);

/// A descriptor, or the errno that says why there is none.
struct SocketResult {
  Fd fd;
  int error = 0;
};

/// A non-blocking listener. TCP: SO_REUSEADDR; a wildcard IPv6 address takes IPv4 too. Unix: mode
/// 0600, and paths longer than the system's 107 bytes work.
SocketResult open_listener(const SocketAddress& address);

/// Makes a socket that another process bound (or bound and listens on) a non-blocking listener.
/// Throws UsageError when `fd` is no stream socket.
void adopt_listener(const Fd& fd);

/// A non-blocking connection. The error is ETIMEDOUT at the deadline; a connection that TCP made to
/// itself, which the kernel allows on an idle local port, counts as refused.
SocketResult connect_to(const SocketAddress& address, Deadline deadline);

/// The next connection of a listener, non-blocking; EAGAIN when there is none.
SocketResult accept_from(int listener);

/// The address `fd` is bound to.
SocketAddress bound_address(int fd);

/// For TCP: no delay, and a peer that vanished without a word is an error within 15 s.
void watch_for_silence(int fd);

/// What one transfer did: bytes moved, or "not now", or the end (`error` 0: the peer closed).
struct Transfer {
  std::size_t count = 0;
  bool would_block = false;
  bool ended = false;
  int error = 0;
};

Transfer receive_some(int fd, std::span<std::byte> into);
Transfer send_some(int fd, std::span<const std::byte> bytes);

/// Tells the peer that nothing more will be sent.
void finish_sending(int fd) noexcept;

/// Waits until one of `fds` has an event; false at the deadline. Without a deadline only an event
/// ends it.
bool poll_until(std::span<pollfd> fds, std::optional<Deadline> deadline);

}  // namespace lockstep::base
