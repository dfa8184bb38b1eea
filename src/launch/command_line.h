#pragma once
#include <string>
#include <vector>

#include "base/env.h"
#include "launch/run_options.h"

namespace lockstep::launch {

/// The two ways to be called: as torchrun is, or as python -m torch.distributed.launch was.
enum class Verb { kRun, kLaunch };

/// Reads the PET_ variables, then the arguments (without the verb), which win.
///
/// Flags end at the first argument that is none: it is the program, and what follows is the
/// program's own and stays as it is. Dashes and underscores are the same, and a unique beginning of
/// a name stands for the whole. Throws UsageError naming the argument and what is allowed.
RunOptions parse_command_line(Verb verb, const std::vector<std::string>& arguments,
                              const base::Env& env);

/// The help text of a verb.
std::string help_text(Verb verb);

/// The table of flags as docs/launch.md has it.
std::string flags_as_markdown();

/// A script that teaches `shell` (bash, zsh, tcsh) the flags.
std::string completion_script(const std::string& shell);

}  // namespace lockstep::launch
