#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "lockstep/error.h"

namespace lockstep::base {

/// How a process ended: by an exit code or by a signal.
class ExitStatus {
 public:
  static ExitStatus exited(int code) { return ExitStatus(code, 0, false); }
  static ExitStatus signaled(int signal, bool core = false) { return ExitStatus(0, signal, core); }

  bool success() const { return code_ == 0 && signal_ == 0; }
  int code() const { return code_; }
  int signal() const { return signal_; }  ///< 0 unless a signal ended it
  bool core_dumped() const { return core_; }
  int shell_code() const { return signal_ != 0 ? 128 + signal_ : code_; }

  /// "exit code 3", "SIGSEGV (signal 11, core dumped)".
  std::string text() const;

 private:
  ExitStatus(int code, int signal, bool core) : code_(code), signal_(signal), core_(core) {}
  int code_;
  int signal_;
  bool core_;
};

/// A child process that nobody else reaps.
struct Process {
  pid_t pid = -1;
  Fd pidfd;  ///< readable once the process has ended

  bool has_ended() const;

  /// The status of an ended process, which is gone with that. Blocks until it has ended.
  ExitStatus reap();
};

/// Where processes that could not execute their program say why. One serves many.
class ExecFailures {
 public:
  ExecFailures();
  int report_end() const { return write_end_.get(); }

  /// The errno of process `pid`, which has ended; nothing when it did execute its program.
  std::optional<int> of(pid_t pid);

 private:
  Fd read_end_;
  Fd write_end_;
  std::map<pid_t, int> errors_;
};

/// What `spawn` starts.
struct Command {
  std::string path;                      ///< executed as it is, no search
  std::vector<std::string> arguments;    ///< with argv[0]
  std::vector<std::string> environment;  ///< NAME=value, the whole of it
  int standard_input = 0;
  int standard_output = 1;
  int standard_error = 2;
  std::vector<int> cpus;         ///< processors it may use; empty: as this process
  unsigned long open_files = 0;  ///< soft limit of descriptors; 0: as this process
  int failure_report = -1;       ///< ExecFailures::report_end()
};

/// Starts the command as leader of a session (so also of a process group) of its own, with default
/// signal handling, and killed when the *thread* that called spawn ends: call it from a thread that
/// lives as long as the process. Does not wait for the program to be executed: one that cannot be
/// ends with code 127 and a note in `failure_report`. Throws InternalError when the system is out
/// of processes or descriptors.
Process spawn(const Command& command);

/// Why a command could not be executed, from the errno, with the remedy.
UsageError exec_error(const std::string& path, int error);

/// Lets this process open as many files as the system allows; returns the soft limit as it was.
unsigned long raise_open_files_limit();

/// Runs `body` in a forked child and ends that with its value. Only for a process with one thread.
Process fork_child(const std::function<int()>& body);

/// Sends a signal to a process, or to a whole process group (every member at once). False when
/// there is none of that number, or it is another user's.
bool send_signal(pid_t pid, int signal) noexcept;
bool send_signal_to_group(pid_t group, int signal) noexcept;

/// Makes this process the leader of a new session, unless it leads a group already.
void lead_session() noexcept;

/// A descriptor that becomes readable when the process ends.
Fd open_pidfd(pid_t pid);

/// From now on orphaned descendants become children of this process, to be reaped by it.
void become_subreaper();

/// Opens /dev/null for those of stdin, stdout and stderr that are closed, so that no other file
/// takes their place.
void open_standard_streams();

/// /dev/null, for reading and writing.
Fd open_null();

/// The environment of this process, as NAME=value.
std::vector<std::string> current_environment();

/// What a look for an ended child, whichever, finds.
struct AnyChild {
  bool exists = false;  ///< there are children, ended or not
  pid_t ended = 0;      ///< one that has ended and waits to be reaped; 0: none has
};
AnyChild look_for_ended_child();

/// Reaps a child that has ended.
void reap_orphan(pid_t pid);

}  // namespace lockstep::base
