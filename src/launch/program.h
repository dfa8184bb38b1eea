#pragma once
#include <string>
#include <vector>

#include "base/env.h"
#include "launch/run_options.h"
#include "lockstep/error.h"

namespace lockstep::launch {

/// Exit codes of the launcher itself; docs/launch.md has the whole table.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

/// The program cannot be started; `exit_code` is 126 or 127, as shells have it.
class ProgramError : public UsageError {
 public:
  ProgramError(int exit_code, const std::string& happened, const std::string& remedy)
      : UsageError(happened, remedy), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// How a worker is started.
struct Program {
  std::string path;                    ///< executed as it is
  std::vector<std::string> arguments;  ///< argv, argv[0] included, without the program's own
};

/// Decides how to start `options.program`: an executable as it is, found by path or by $PATH; a .py
/// file or a module by python. Looks before anything is started, so that a wrong name is one error
/// and not one a worker. Throws ProgramError.
Program find_program(const RunOptions& options, const base::Env& env);

}  // namespace lockstep::launch
