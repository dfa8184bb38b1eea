#include "rendezvous/listener.h"

#include <cerrno>
#include <filesystem>

#include "base/concat.h"
#include "base/os_error.h"
#include "base/rename.h"
#include "rendezvous/dial.h"
#include "rendezvous/failure.h"

namespace lockstep::rendezvous {
namespace {

using base::concat;
using base::SocketAddress;

constexpr std::chrono::milliseconds kProbeLimit{500};

std::vector<SocketAddress> with_port(const std::vector<std::string>& digits, std::uint16_t port) {
  std::vector<SocketAddress> addresses;
  for (const auto& each : digits)
    if (const auto address = SocketAddress::ip(each, port)) addresses.push_back(*address);
  return addresses;
}

// Where to listen, best first; the next is taken when this host does not have the address.
std::vector<SocketAddress> candidates(const Endpoint& endpoint) {
  if (endpoint.host == "localhost") return with_port({"127.0.0.1", "::1"}, endpoint.port);
  auto addresses = with_port({"::", "0.0.0.0"}, endpoint.port);
  if (const auto digits = SocketAddress::ip(endpoint.host, endpoint.port))
    addresses.insert(addresses.begin(), *digits);
  return addresses;
}

std::vector<SocketAddress> reachable(const SocketAddress& bound) {
  if (!bound.is_wildcard()) return {bound};
  if (bound.family() == AF_INET) return with_port({"127.0.0.1"}, bound.port());
  return with_port({"127.0.0.1", "::1"}, bound.port());
}

[[noreturn]] void taken(const std::string& place, const std::vector<SocketAddress>& addresses,
                        const Member& host) {
  const auto deadline = base::Deadline::in(kProbeLimit);
  Failure failure{.happened = concat(place, " is in use by another program"),
                  .remedy = "choose another one for all ranks; `ss -lxtnp` shows who holds it"};
  for (const auto& address : addresses) {
    const auto holder = probe(address, deadline);
    if (!holder) continue;
    failure.happened = concat(place, " is in use by job '", holder->host.job_id, "', served by ",
                              holder->host.text());
    failure.remedy = "choose another one for all ranks of this job, or end that job";
    break;
  }
  raise(failure, host, "rendezvous");
}

[[noreturn]] void cannot_listen(const std::string& place, int error, const Member& host) {
  raise({.happened = concat("cannot listen at ", place, ": ", base::errno_text(error)),
         .remedy = error == EACCES ? "choose a port over 1023, or a folder that is yours"
                                   : base::os_error("", error).remedy()},
        host, "rendezvous");
}

bool is_dead_socket(const std::filesystem::path& path) {
  const auto visit =
      base::connect_to(SocketAddress::unix_path(path), base::Deadline::in(kProbeLimit));
  return visit.error == ECONNREFUSED && std::filesystem::is_socket(path);
}

void set_dead_socket_aside(const Endpoint& endpoint, const Member& host) {
  const std::filesystem::path path(endpoint.path);
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return;
  if (type != std::filesystem::file_type::socket) {
    raise({.happened = concat(path.string(), " exists and is not a socket"),
           .remedy = "choose a path that does not exist"},
          host, "rendezvous");
  }
  if (!is_dead_socket(path)) taken(endpoint.text(), {SocketAddress::unix_path(path)}, host);
  // Another server may replace the dead socket at this moment: what was moved is looked at again.
  const std::filesystem::path aside = base::hidden_beside(path);
  std::filesystem::rename(path, aside, error);
  if (error == std::errc::no_such_file_or_directory) return;
  if (error) cannot_listen(endpoint.text(), error.value(), host);
  if (is_dead_socket(aside) || !base::rename_if_absent(aside, path))
    std::filesystem::remove(aside, error);
}

}  // namespace

Listener::Listener(const Endpoint& endpoint, const Member& host) : endpoint_(endpoint) {
  endpoint.kind == Endpoint::kTcp ? open_tcp(host) : open_unix(host);
}

Listener::Listener(base::Fd bound) : fd_(std::move(bound)) {
  base::adopt_listener(fd_);
  const auto address = base::bound_address(fd_.get());
  endpoint_ = address.family() == AF_UNIX ? Endpoint::unix_path(address.path())
                                          : Endpoint::tcp(address.host(), address.port());
}

Listener::~Listener() { close(); }

void Listener::close() noexcept {
  fd_.reset();
  if (!owned_path_.empty()) file_.remove(owned_path_);
  owned_path_.clear();
}

std::vector<SocketAddress> Listener::local_addresses() const {
  if (endpoint_.kind == Endpoint::kUnix) return {SocketAddress::unix_path(endpoint_.path)};
  return reachable(base::bound_address(fd_.get()));
}

void Listener::open_tcp(const Member& host) {
  int error = 0;
  for (const auto& address : candidates(endpoint_)) {
    auto opened = base::open_listener(address);
    error = opened.error;
    if (error == EADDRINUSE)
      taken(concat("port ", endpoint_.port, " at ", address.text()), reachable(address), host);
    if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
    if (error != 0) break;
    fd_ = std::move(opened.fd);
    endpoint_.port = base::bound_address(fd_.get()).port();
    return;
  }
  cannot_listen(endpoint_.text(), error, host);
}

void Listener::open_unix(const Member& host) {
  const std::filesystem::path path(endpoint_.path);
  // The path appears when the socket listens already: whoever is refused there has met a dead one.
  const std::filesystem::path hidden = base::hidden_beside(path);
  auto opened = base::open_listener(SocketAddress::unix_path(hidden));
  if (opened.error != 0) cannot_listen(endpoint_.text(), opened.error, host);
  file_ = base::HeldFile(hidden);
  try {
    while (!base::rename_if_absent(hidden, path)) set_dead_socket_aside(endpoint_, host);
  } catch (...) {
    file_.remove(hidden);
    throw;
  }
  fd_ = std::move(opened.fd);
  owned_path_ = endpoint_.path;
}

}  // namespace lockstep::rendezvous
