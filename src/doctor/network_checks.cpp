#include <algorithm>
#include <chrono>
#include <sstream>

#include "base/concat.h"
#include "base/host.h"
#include "base/os_error.h"
#include "base/socket.h"
#include "doctor/check.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

using base::concat;

constexpr auto kLookUpLimit = std::chrono::seconds(5);
constexpr auto kSlowLookUp = std::chrono::seconds(1);
constexpr int kFewestPorts = 1000;
// torchrun's, where jobs meet unless they are told otherwise.
constexpr std::uint16_t kUsualPorts[] = {29400, 29500};

Check interfaces() {
  Check check{"interfaces", Grade::kOk, "", ""};
  bool outside = false;
  try {
    for (const auto& [interface, address] : base::interface_addresses()) {
      if (address.is_link_local()) continue;
      check.found += concat(check.found.empty() ? "" : ", ", interface, " ", address.host());
      outside |= !address.is_loopback();
    }
  } catch (const Error& error) {
    check.found = error.happened();
  }
  if (outside) return check;
  check.grade = Grade::kWarn;
  if (check.found.empty()) check.found = "none with an address";
  check.remedy = "jobs of this host alone work; for several hosts bring an interface up (ip addr)";
  return check;
}

Check own_name() {
  const std::string name = base::host_name();
  Check check{"own name", Grade::kOk, "", ""};
  const auto deadline = base::Deadline::in(kLookUpLimit);
  const base::Resolution found = base::resolve(name, 0, deadline);
  const auto took = deadline.elapsed();
  if (found.addresses.empty()) {
    check.grade = Grade::kWarn;
    check.found = concat(name, ": ", found.failure);
    check.remedy = concat("put a line 'ADDRESS ", name,
                          "' into /etc/hosts; on one host nothing needs the name");
    return check;
  }
  const bool loopback = std::any_of(found.addresses.begin(), found.addresses.end(),
                                    [](const auto& address) { return address.is_loopback(); });
  check.found = concat(name, " is ", found.addresses.front().host());
  if (loopback) {
    check.grade = Grade::kWarn;
    check.found += ", a loopback address";
    check.remedy = concat(
        "other hosts that are told this name reach themselves: give them an address instead "
        "(--rdzv-endpoint, --local-addr), or correct the line of ",
        name, " in /etc/hosts");
  } else if (took > kSlowLookUp) {
    check.grade = Grade::kWarn;
    check.found += concat(", found after ",
                          std::chrono::duration_cast<std::chrono::seconds>(took).count(), " s");
    check.remedy = "the name service answers slowly: see /etc/resolv.conf, or use /etc/hosts";
  }
  return check;
}

Check loopback_ports() {
  Check check{"loopback", Grade::kOk, "a port can be opened", ""};
  const auto address = base::SocketAddress::ip("127.0.0.1", 0);
  const base::SocketResult opened = base::open_listener(*address);
  if (opened.fd) return check;
  check.grade = Grade::kFail;
  check.found = concat("no port can be opened: ", base::errno_text(opened.error));
  check.remedy = "bring the loopback interface up: ip link set lo up";
  return check;
}

Check usual_ports() {
  Check check{"usual ports", Grade::kOk, "29400 and 29500 are free", ""};
  std::string taken;
  for (const std::uint16_t port : kUsualPorts) {
    const auto address = base::SocketAddress::ip("0.0.0.0", port);
    if (!base::open_listener(*address).fd) taken += concat(taken.empty() ? "" : " and ", port);
  }
  if (taken.empty()) return check;
  check.grade = Grade::kWarn;
  check.found = concat("in use: ", taken);
  check.remedy = "another job runs here: choose a port with --rdzv-endpoint HOST:PORT";
  return check;
}

Check free_ports() {
  Check check{"ports to choose", Grade::kOk, "", ""};
  std::istringstream range(first_line_of("/proc/sys/net/ipv4/ip_local_port_range"));
  int first = 0, last = -1;
  range >> first >> last;
  check.found = concat(first, " to ", last);
  if (last - first + 1 >= kFewestPorts) return check;
  check.grade = Grade::kWarn;
  check.remedy = "sysctl -w net.ipv4.ip_local_port_range='32768 60999'";
  return check;
}

}  // namespace

Checks network_checks() {
  return {interfaces(), own_name(), loopback_ports(), usual_ports(), free_ports()};
}

}  // namespace lockstep::doctor
