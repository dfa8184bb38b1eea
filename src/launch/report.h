#pragma once
#include <string>
#include <vector>

#include "launch/outcome.h"

namespace lockstep::launch {

/// The failure report: root cause first, with its last lines; then further failures, then those
/// that the launcher stopped, in one line; then every earlier attempt. Ends with a newline.
std::string failure_report(const std::vector<AttemptOutcome>& attempts, bool colour);

/// One line about a failed attempt that is followed by another.
std::string restart_notice(const AttemptOutcome& outcome, int max_restarts);

}  // namespace lockstep::launch
