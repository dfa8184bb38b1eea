#include <netdb.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/concat.h"
#include "base/os_error.h"
#include "base/socket.h"
#include "base/thread_name.h"

namespace lockstep::base {
namespace {

struct Lookup {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Resolution result;
};

Resolution look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure == EAI_SYSTEM) return {{}, errno_text(errno)};
  if (failure != 0) return {{}, ::gai_strerror(failure)};
  Resolution result;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
    result.addresses.push_back(SocketAddress::from(entry->ai_addr, entry->ai_addrlen));
  ::freeaddrinfo(found);
  return result;
}

}  // namespace

Resolution resolve(const std::string& host, std::uint16_t port, Deadline deadline) {
  if (const auto literal = SocketAddress::ip(host, port)) return {{*literal}, ""};
  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, host, port] {
      name_this_thread("ls-resolve");
      Resolution result = look_up(host, port);
      const std::lock_guard lock(lookup->mutex);
      lookup->result = std::move(result);
      lookup->done = true;
      lookup->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    throw os_error("cannot start a thread to look up " + host, error.code().value());
  }
  std::unique_lock lock(lookup->mutex);
  if (!lookup->changed.wait_until(lock, deadline.time(), [&] { return lookup->done; }))
    return {{}, "the name service does not answer"};
  return std::move(lookup->result);
}

}  // namespace lockstep::base
