#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/process.h"

namespace lockstep::test {

/// How a command ended and what it said.
struct Finished {
  int code = -1;  ///< as a shell has it: 128 + n for signal n
  bool in_time = true;
  double seconds = 0;
  std::string out;
  std::string err;
};

/// A program by its path, with its arguments.
struct Program {
  std::vector<std::string> words;
};

/// The `lockstep` command as a user runs it, with pipes for its output.
class Launched {
 public:
  using Variables = std::map<std::string, std::string>;

  /// `variables` are added to the environment; an empty value removes one.
  /// `wrapper` is a program with arguments that executes the command in its own place, such as
  /// `/usr/sbin/ip netns exec NAME`.
  explicit Launched(const std::vector<std::string>& arguments, const Variables& variables = {},
                    const std::vector<std::string>& wrapper = {});

  /// Another program instead, in the same way.
  explicit Launched(const Program& program, const Variables& variables = {});

  /// Kills what is left.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return process_.pid; }
  void signal(int number) const;

  /// Reads on until stdout and stderr together hold `text` `times` times; false at the deadline.
  bool wait_for(const std::string& text, int times = 1,
                base::Deadline deadline = base::Deadline::in(kPatience));

  /// Waits for the end and all output.
  Finished finish(base::Deadline deadline = base::Deadline::in(kPatience));

  /// Processes that this command started, in whatever session they are and whoever is their parent
  /// now.
  std::vector<pid_t> offspring() const;

  /// Waits until there are no such processes; returns how many are left at the deadline.
  std::size_t offspring_left(base::Deadline deadline) const;

  static constexpr std::chrono::seconds kPatience{20};

 private:
  bool read_more(const base::Deadline& deadline);

  std::string mark_;  // an environment variable's value that all descendants inherit
  base::Deadline::Clock::time_point began_;
  base::Process process_;
  base::Fd out_;
  base::Fd err_;
  Finished finished_;
};

/// Runs the command to its end.
Finished lockstep(const std::vector<std::string>& arguments,
                  const Launched::Variables& variables = {});

/// `lockstep run ARGUMENTS sh -c SCRIPT`.
Finished run_shell(std::vector<std::string> arguments, const std::string& script,
                   const Launched::Variables& variables = {});

/// The lines of a text.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace lockstep::test
