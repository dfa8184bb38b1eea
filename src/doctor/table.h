#pragma once
#include <string>

#include "doctor/check.h"

namespace lockstep::doctor {

/// A line a check, its remedy below it, and how many there are of each grade.
std::string table_text(const Checks& checks, bool colour);

/// {"host": ..., "checks": [{"name", "grade", "found", "remedy"}, ...]}
std::string table_json(const Checks& checks);

}  // namespace lockstep::doctor
