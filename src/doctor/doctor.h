#pragma once
#include <string>
#include <vector>

namespace lockstep::doctor {

/// What a command says and ends with.
struct Answer {
  int code = 0;
  std::string text;
};

inline constexpr int kExitFound = 0;     ///< a cause was found; the machine is well
inline constexpr int kExitNotFound = 1;  ///< the records show no cause; something fails here
inline constexpr int kExitInput = 2;     ///< wrong arguments or files

/// `lockstep doctor [--json FILE] [RECORD...]`: with flight records, who differed and where;
/// without, whether this machine is ready for a job. Throws UsageError and DataError for what calls
/// for kExitInput.
Answer doctor(const std::vector<std::string>& arguments, bool colour);

}  // namespace lockstep::doctor
