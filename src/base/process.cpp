#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "base/concat.h"
#include "base/os_error.h"
#include "base/signals.h"

namespace lockstep::base {
namespace {

ExitStatus status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return ExitStatus::exited(info.si_status);
  return ExitStatus::signaled(info.si_status, info.si_code == CLD_DUMPED);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// What the new process must know, made before the fork: after it only async-signal-safe calls are
// allowed.
struct Prepared {
  const Command& command;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  cpu_set_t cpus;
  rlimit open_files;
  pid_t parent;
};

struct ExecFailure {
  pid_t pid;
  int error;
};

void default_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  struct sigaction current {};
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (::sigaction(signal, nullptr, &current) != 0) continue;
    // What this process was started to ignore stays ignored (nohup); SIGPIPE is our own doing.
    if (current.sa_handler == SIG_IGN && signal != SIGPIPE) continue;
    ::sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Puts `fd` at `target`; the copy stays open across exec, also when both are the same.
bool place(int fd, int target) {
  if (fd == target) return ::fcntl(fd, F_SETFD, 0) == 0;
  return ::dup2(fd, target) >= 0;
}

[[noreturn]] void become(const Prepared& prepared) {
  const Command& command = prepared.command;
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(128 + SIGKILL);  // the parent died before the prctl
  default_signals();
  if (!command.cpus.empty()) ::sched_setaffinity(0, sizeof prepared.cpus, &prepared.cpus);
  ::setrlimit(RLIMIT_NOFILE, &prepared.open_files);
  // The report must survive the streams taking their places: it is never one of the first three.
  if (place(command.standard_input, 0) && place(command.standard_output, 1) &&
      place(command.standard_error, 2))
    ::execve(command.path.c_str(), prepared.arguments.data(), prepared.environment.data());
  const ExecFailure failure{::getpid(), errno};
  [[maybe_unused]] const auto written = ::write(command.failure_report, &failure, sizeof failure);
  ::_exit(127);
}

}  // namespace

std::string ExitStatus::text() const {
  if (signal_ == 0) return concat("exit code ", code_);
  return concat(signal_name(signal_), " (signal ", signal_, core_ ? ", core dumped)" : ")");
}

ExitStatus Process::reap() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0) {
    if (errno != EINTR) throw os_error(concat("cannot wait for process ", pid));
  }
  pidfd.reset();
  return status_of(info);
}

bool Process::has_ended() const {
  pollfd ended{pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1;
}

ExecFailures::ExecFailures() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw os_error("cannot make a pipe");
  read_end_ = Fd(ends[0]);
  write_end_ = Fd(ends[1]);
}

std::optional<int> ExecFailures::of(pid_t pid) {
  ExecFailure failure;
  while (::read(read_end_.get(), &failure, sizeof failure) == sizeof failure)
    errors_[failure.pid] = failure.error;
  const auto found = errors_.find(pid);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

Process spawn(const Command& command) {
  Prepared prepared{command,   pointers(command.arguments), pointers(command.environment), {}, {},
                    ::getpid()};
  CPU_ZERO(&prepared.cpus);
  for (const int cpu : command.cpus) CPU_SET(cpu, &prepared.cpus);
  ::getrlimit(RLIMIT_NOFILE, &prepared.open_files);
  if (command.open_files != 0) prepared.open_files.rlim_cur = command.open_files;

  Process process;
  process.pid = ::fork();
  if (process.pid < 0) throw os_error(concat("cannot start a process for ", command.path));
  if (process.pid == 0) become(prepared);
  process.pidfd = open_pidfd(process.pid);
  return process;
}

UsageError exec_error(const std::string& path, int error) {
  const std::string what = concat("cannot execute ", path, ": ", errno_text(error));
  switch (error) {
    case ENOEXEC:
      return UsageError(what,
                        "it is neither a program for this machine nor a script with a first line "
                        "such as #!/bin/sh");
    case E2BIG:
      return UsageError(what, "shorten the arguments or the environment");
    case ENOENT:
      return UsageError(what,
                        "the file, its interpreter (#! line) or its dynamic loader is missing");
    default:
      return UsageError(what, "check the path and its permissions");
  }
}

unsigned long raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const auto before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

Process fork_child(const std::function<int()>& body) {
  Process process;
  process.pid = ::fork();
  if (process.pid < 0) throw os_error("cannot start a process");
  if (process.pid == 0) {
    int code = 1;
    try {
      code = body();
    } catch (const std::exception& error) {
      const std::string text = concat("lockstep: ", error.what(), "\n");
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    }
    ::_exit(code);
  }
  process.pidfd = open_pidfd(process.pid);
  return process;
}

bool send_signal(pid_t pid, int signal) noexcept { return ::kill(pid, signal) == 0; }

bool send_signal_to_group(pid_t group, int signal) noexcept { return ::kill(-group, signal) == 0; }

void lead_session() noexcept { ::setsid(); }

Fd open_pidfd(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) throw os_error(concat("cannot watch process ", pid));
  return fd;
}

void become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) throw os_error("cannot become a subreaper");
}

void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is taken, which is this one.
    if (::open("/dev/null", O_RDWR) < 0) throw os_error("cannot open /dev/null");
  }
}

Fd open_null() {
  Fd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!fd) throw os_error("cannot open /dev/null");
  return fd;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    variables.emplace_back(*entry);
  return variables;
}

AnyChild look_for_ended_child() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == ECHILD) return {};
    if (errno != EINTR) throw os_error("cannot look for ended children");
  }
  return {true, info.si_pid};
}

void reap_orphan(pid_t pid) {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
}

}  // namespace lockstep::base
