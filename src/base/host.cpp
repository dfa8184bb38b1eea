#include "base/host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "base/concat.h"
#include "base/os_error.h"

namespace lockstep::base {
namespace {

std::string namespace_of_this_process(const char* link) {
  char text[64] = "";
  const auto size = ::readlink(link, text, sizeof text - 1);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name[0] != '\0' ? name : "unnamed";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string pid_namespace() { return namespace_of_this_process("/proc/self/ns/pid"); }

std::string network_namespace() { return namespace_of_this_process("/proc/self/ns/net"); }

int this_pid() { return ::getpid(); }

std::optional<std::uint64_t> process_start_time(int pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // "pid (name) state ppid ...": the name may hold anything, blanks and brackets too, so start
  // behind it.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  constexpr int kState = 3;
  constexpr int kStartTime = 22;
  for (int number = kState; number <= kStartTime && fields >> field; ++number) {
    if (number == kState && (field == "Z" || field == "X")) return std::nullopt;
    if (number == kStartTime) return std::stoull(field);
  }
  return std::nullopt;
}

bool process_alive(int pid, std::uint64_t start_time) {
  return process_start_time(pid) == start_time;
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw os_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    addresses.push_back({entry->ifa_name, SocketAddress::from(entry->ifa_addr, size)});
  }
  return addresses;
}

std::string random_hex(std::size_t bytes) {
  std::string digits;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    if (::getrandom(&byte, 1, 0) != 1) throw os_error("cannot get random bytes");
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace lockstep::base
