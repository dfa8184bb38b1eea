#include "base/process_activity.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "base/concat.h"
#include "base/env.h"
#include "base/host.h"

namespace lockstep::base {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Those in which programs wait as a rule; the others keep their number.
std::string system_call_name(long number) {
  struct Name {
    long number;
    const char* text;
  };
  static constexpr Name kNames[] = {
      {SYS_futex, "futex"},
      {SYS_ppoll, "ppoll"},
      {SYS_read, "read"},
      {SYS_write, "write"},
      {SYS_readv, "readv"},
      {SYS_writev, "writev"},
      {SYS_recvfrom, "recvfrom"},
      {SYS_recvmsg, "recvmsg"},
      {SYS_sendto, "sendto"},
      {SYS_sendmsg, "sendmsg"},
      {SYS_connect, "connect"},
      {SYS_accept4, "accept4"},
      {SYS_nanosleep, "nanosleep"},
      {SYS_clock_nanosleep, "clock_nanosleep"},
      {SYS_wait4, "wait4"},
      {SYS_waitid, "waitid"},
      {SYS_fsync, "fsync"},
      {SYS_epoll_pwait, "epoll_pwait"},
      {SYS_openat, "openat"},
      {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
      {SYS_pselect6, "pselect6"},
      {SYS_rt_sigsuspend, "rt_sigsuspend"},
      {SYS_ioctl, "ioctl"},
#ifdef SYS_epoll_wait  // x86 has calls that later machines do without
      {SYS_epoll_wait, "epoll_wait"},
      {SYS_poll, "poll"},
      {SYS_select, "select"},
      {SYS_pause, "pause"},
#endif
  };
  for (const Name& name : kNames)
    if (name.number == number) return name.text;
  return concat("call ", number);
}

}  // namespace

std::optional<ProcessActivity> process_activity(int pid) {
  const std::string folder = concat("/proc/", pid, "/");
  const std::string line = first_line(folder + "stat");
  // The name in brackets may hold anything: the last bracket ends it.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::vector<std::string> values;
  for (std::string value; fields >> value;) values.push_back(value);
  constexpr std::size_t kUserTime = 14 - 3, kSystemTime = 15 - 3, kThreads = 20 - 3,
                        kResident = 24 - 3;  // the first behind the name is field 3
  if (values.size() <= kResident) return std::nullopt;
  const auto number = [&](std::size_t field) { return parse_number(values[field]).value_or(0); };

  ProcessActivity activity;
  activity.state = process_state(pid);
  activity.cpu_seconds = static_cast<double>(number(kUserTime) + number(kSystemTime)) /
                         static_cast<double>(::sysconf(_SC_CLK_TCK));
  activity.threads = static_cast<int>(number(kThreads));
  activity.resident =
      static_cast<std::uint64_t>(number(kResident)) * static_cast<std::uint64_t>(::getpagesize());
  const std::string call = first_line(folder + "syscall");
  const auto call_number = parse_number(call.substr(0, call.find(' ')));
  if (call_number && *call_number >= 0) activity.system_call = system_call_name(*call_number);
  const std::string channel = first_line(folder + "wchan");
  if (channel != "0") activity.wait_channel = channel;
  return activity;
}

}  // namespace lockstep::base
