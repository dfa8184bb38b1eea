#pragma once
#include <span>
#include <string>

#include "launch/run_options.h"

namespace lockstep::launch {

/// A value and where it was given, so that what is wrong with it can be said.
struct FlagValue {
  std::string text;
  std::string origin;  ///< "--max-restarts" or "PET_MAX_RESTARTS"
};

/// A row of the table that makes the parser, the PET_ variables, the help, the completions and the
/// reference in docs/launch.md.
struct Flag {
  const char* group;
  const char* name;      ///< with dashes, without the leading ones; underscores are understood too
  char letter;           ///< short form, or 0
  const char* value;     ///< what the value is called; nullptr: a switch without one
  const char* standard;  ///< the default, as text
  const char* help;
  void (*apply)(const FlagValue& value, RunOptions& options);  ///< throws UsageError on a bad value
  bool only_typed = false;  ///< has no variable: it asks for a text instead of a run
};

/// Every flag of `lockstep run`, in the order of the help.
std::span<const Flag> flags();

/// "PET_MAX_RESTARTS".
std::string variable_of(const Flag& flag);

}  // namespace lockstep::launch
