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

/// Of /proc/PID/stat: "pid (name) state ppid ...". The name may hold anything, blanks and brackets
/// too, so they are counted from behind it. Empty when there is no such process.
std::vector<std::string> fields_behind_name(int pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  std::vector<std::string> found;
  if (!std::getline(file, line)) return found;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return found;
  std::istringstream fields(line.substr(name_end + 1));
  for (std::string field; fields >> field;) found.push_back(field);
  return found;
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

std::string process_state(int pid) {
  const auto fields = fields_behind_name(pid);
  switch (fields.empty() ? 'X' : fields.front().front()) {
    case 'R':
      return "running";
    case 'S':
    case 'I':
      return "asleep";
    case 'D':
      return "in the kernel (D)";
    case 'T':
    case 't':
      return "stopped (T)";
    default:
      return "dead";
  }
}

std::optional<std::uint64_t> process_start_time(int pid) {
  const auto fields = fields_behind_name(pid);
  constexpr std::size_t kStartTime = 22 - 3;  // the first behind the name is field 3, the state
  if (fields.size() <= kStartTime || fields[0] == "Z" || fields[0] == "X") return std::nullopt;
  return std::stoull(fields[kStartTime]);
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
