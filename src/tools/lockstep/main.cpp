#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/terminal.h"
#include "doctor/doctor.h"
#include "launch/command_line.h"
#include "launch/guardian.h"
#include "launch/program.h"

namespace {

using lockstep::launch::Verb;

constexpr const char* kUsage =
    "lockstep VERB ...\n\n"
    "  run       start a program as the workers of one job (the flags are torchrun's)\n"
    "  doctor    who differed in a job that failed; is this machine ready for one\n"
    "  launch    the same in the manner of python -m torch.distributed.launch\n\n"
    "  lockstep VERB --help    the flags of a verb\n"
    "  lockstep --version\n";

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int complain(const std::string& verb, const std::exception& error, int code) {
  std::fprintf(stderr, "lockstep %s: %s\n", verb.c_str(), error.what());
  return code;
}

int run(Verb verb, const std::vector<std::string>& arguments) {
  using namespace lockstep::launch;
  const RunOptions options = parse_command_line(verb, arguments, lockstep::base::Env::of_process());
  if (options.help) return print(help_text(verb));
  if (!options.completion_shell.empty()) return print(completion_script(options.completion_shell));
  return run_job(options);
}

int doctor(const std::vector<std::string>& arguments) {
  using namespace lockstep::doctor;
  try {
    const Answer answer = lockstep::doctor::doctor(arguments, lockstep::base::is_terminal(1));
    print(answer.text);
    return answer.code;
  } catch (const lockstep::DataError& error) {
    return complain("doctor", error, kExitInput);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "--help";
  try {
    if (verb == "run") return run(Verb::kRun, arguments);
    if (verb == "launch") return run(Verb::kLaunch, arguments);
    if (verb == "doctor") return doctor(arguments);
    if (verb == "--help" || verb == "-h" || verb == "help") return print(kUsage);
    if (verb == "--version") return print("lockstep " LOCKSTEP_VERSION "\n");
    std::fprintf(stderr, "lockstep: unknown verb '%s'\n  remedy: lockstep --help lists them\n",
                 verb.c_str());
    return lockstep::launch::kExitUsage;
  } catch (const lockstep::launch::ProgramError& error) {
    return complain(verb, error, error.exit_code());
  } catch (const lockstep::UsageError& error) {
    return complain(verb, error, lockstep::launch::kExitUsage);
  } catch (const std::exception& error) {
    return complain(verb, error, lockstep::launch::kExitFailure);
  }
}
