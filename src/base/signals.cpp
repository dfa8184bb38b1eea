#include "base/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

#include "base/concat.h"
#include "base/env.h"
#include "base/os_error.h"

namespace lockstep::base {

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) return concat("SIG", name);
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return concat("SIGRTMIN+", signal - SIGRTMIN);
  return concat("signal ", signal);
}

std::optional<int> signal_number(std::string_view name) {
  const auto number = parse_number(name);
  if (number) {
    if (*number >= 1 && *number <= SIGRTMAX) return static_cast<int>(*number);
    return std::nullopt;
  }
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    const std::string known = signal_name(signal);
    if (name == known || known == concat("SIG", name)) return signal;
  }
  return std::nullopt;
}

sigset_t awaitable_signals() {
  sigset_t signals;
  ::sigfillset(&signals);
  for (const int never : {SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH, SIGURG,
                          SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPIPE})
    ::sigdelset(&signals, never);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      ::sigdelset(&signals, signal);
  }
  // An ignored SIGCHLD would make the kernel reap children before their status is read.
  ::signal(SIGCHLD, SIG_DFL);
  ::sigaddset(&signals, SIGCHLD);
  return signals;
}

SignalFd::SignalFd(const sigset_t& signals) {
  ::signal(SIGPIPE, SIG_IGN);
  if (::sigprocmask(SIG_BLOCK, &signals, &before_) != 0) throw os_error("cannot block signals");
  fd_ = Fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw os_error("cannot make a signalfd");
}

SignalFd::~SignalFd() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalFd::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace lockstep::base
