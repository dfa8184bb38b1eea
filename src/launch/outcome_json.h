#pragma once
#include <string>

#include "launch/outcome.h"

namespace lockstep::launch {

/// What one node tells the others about the end of an attempt: success, or the cause alone.
std::string to_json(const AttemptOutcome& outcome);

/// The inverse. Throws RendezvousError when `text` is none.
AttemptOutcome outcome_from_json(const std::string& text);

}  // namespace lockstep::launch
