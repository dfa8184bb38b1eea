#pragma once
#include <optional>
#include <vector>

#include "doctor/verdict.h"

namespace lockstep::doctor {

/// The first call of the group at which its members differ.
std::optional<Verdict> find_disagreement(const Story& story, const std::string& group,
                                         const std::vector<int>& members);

}  // namespace lockstep::doctor
