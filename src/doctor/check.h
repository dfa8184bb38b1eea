#pragma once
#include <string>
#include <vector>

namespace lockstep::doctor {

enum class Grade { kOk, kWarn, kFail };

/// One thing that a job needs of this machine.
struct Check {
  std::string name;
  Grade grade = Grade::kOk;
  std::string found;
  std::string remedy;  ///< empty when all is well
};
using Checks = std::vector<Check>;

// Each room of the machine; none of them changes anything or asks another machine, but for the
// look-up of this host's own name. None throws for what it finds.

Checks memory_checks();     ///< shared memory, memory, temporary files
Checks limit_checks();      ///< what the shell or a batch system allows this process
Checks processor_checks();  ///< processors, clock, GPUs
Checks network_checks();    ///< interfaces, own name, ports
Checks software_checks();   ///< libtorch, other launchers

/// "12.3 GiB".
std::string bytes_text(double bytes);

/// The first line of a file, empty when there is none.
std::string first_line_of(const std::string& path);

}  // namespace lockstep::doctor
