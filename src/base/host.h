#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/socket.h"

namespace lockstep::base {

std::string host_name();

/// Differs after every boot and between machines; empty where the kernel does not tell.
std::string boot_id();

/// Names the set of processes in which a pid has a meaning (containers have their own).
std::string pid_namespace();

/// Names the set of network interfaces and ports that this process sees.
std::string network_namespace();

int this_pid();

/// When process `pid` of this host started, in clock ticks since boot; nothing when there is none,
/// and for one that ended but was not reaped. With the pid it names a process for good: pids are
/// reused.
std::optional<std::uint64_t> process_start_time(int pid);

/// What a process of this host is doing, in a word or two: "running", "asleep", "in the kernel (D)",
/// "stopped (T)", "dead".
std::string process_state(int pid);

bool process_alive(int pid, std::uint64_t start_time);

struct InterfaceAddress {
  std::string interface;
  SocketAddress address;
};

/// The IP addresses of this host's interfaces that are up, loopback included, in the kernel's
/// order.
std::vector<InterfaceAddress> interface_addresses();

/// `bytes` random bytes as hexadecimal digits.
std::string random_hex(std::size_t bytes);

}  // namespace lockstep::base
