#include "base/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/concat.h"
#include "base/deadline.h"
#include "base/env.h"
#include "base/fd.h"
#include "base/os_error.h"
#include "base/process.h"

namespace lockstep::base {
namespace {

std::optional<ProcessEntry> read_entry(pid_t pid) {
  const Fd fd(::open(concat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  char text[512];
  const auto got = ::read(fd.get(), text, sizeof text - 1);
  if (got <= 0) return std::nullopt;
  text[got] = '\0';
  // The name in parentheses may hold anything, parentheses too: the last one ends it.
  const char* after_name = std::strrchr(text, ')');
  if (after_name == nullptr) return std::nullopt;
  ProcessEntry entry{pid, 0, 0, '?'};
  if (std::sscanf(after_name + 1, " %c %d %d", &entry.state, &entry.parent, &entry.group) != 3)
    return std::nullopt;
  return entry;
}

std::vector<ProcessEntry> process_table() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) throw os_error("cannot read /proc");
  std::vector<ProcessEntry> table;
  while (const dirent* item = ::readdir(folder.get())) {
    const auto pid = parse_number(item->d_name);
    if (!pid) continue;
    if (const auto entry = read_entry(static_cast<pid_t>(*pid))) table.push_back(*entry);
  }
  return table;
}

}  // namespace

std::vector<ProcessEntry> descendants(pid_t root) {
  std::unordered_multimap<pid_t, ProcessEntry> by_parent;
  for (const ProcessEntry& entry : process_table()) by_parent.emplace(entry.parent, entry);
  std::vector<ProcessEntry> found;
  std::vector<pid_t> open{root};
  for (std::size_t next = 0; next < open.size(); ++next) {
    const auto [first, last] = by_parent.equal_range(open[next]);
    for (auto child = first; child != last; ++child) {
      open.push_back(child->second.pid);
      if (child->second.state != 'Z') found.push_back(child->second);
    }
  }
  return found;
}

std::vector<ProcessEntry> kill_descendants(double limit_seconds) {
  const auto deadline = Deadline::in(std::chrono::duration_cast<Deadline::Clock::duration>(
      std::chrono::duration<double>(limit_seconds)));
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &child_ended, &before);
  std::vector<ProcessEntry> left;
  for (;;) {
    AnyChild child;
    while ((child = look_for_ended_child()).ended != 0) reap_orphan(child.ended);
    left = descendants(::getpid());
    if ((!child.exists && left.empty()) || deadline.expired()) break;
    for (const ProcessEntry& entry : left) ::kill(entry.pid, SIGKILL);
    // Children tell of their end; the time limit is for their children, who do not tell us.
    const timespec round{0, 5'000'000};
    ::sigtimedwait(&child_ended, nullptr, &round);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return left;
}

}  // namespace lockstep::base
