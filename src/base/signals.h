#pragma once
#include <signal.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace lockstep::base {

/// "SIGTERM", "SIGRTMIN+3"; "signal 99" for a number that is none.
std::string signal_name(int signal);

/// The inverse; "TERM" and "15" are understood too.
std::optional<int> signal_number(std::string_view name);

/// The signals that would end this process, or tell it of its children, and that can be waited for:
/// all but KILL, the job control ones, those of a fault in the program itself (SEGV, BUS, FPE,
/// ILL), and those that the process was started to ignore (as nohup does).
sigset_t awaitable_signals();

/// Signals as events on a descriptor instead of interruptions.
///
/// Blocks `signals` in the calling thread for its lifetime and ignores SIGPIPE for good. Make it
/// before any other thread starts. Not inherited usefully: a forked child makes its own.
class SignalFd {
 public:
  explicit SignalFd(const sigset_t& signals);
  ~SignalFd();
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;

  int get() const { return fd_.get(); }

  /// The next signal that came, if one did. Never blocks.
  std::optional<int> next();

 private:
  sigset_t before_;
  Fd fd_;
};

}  // namespace lockstep::base
