#pragma once

namespace lockstep::comm {

/// libtorch's C++ interface changes with every minor version. Throws UsageError naming both
/// versions when the library that was loaded is not of the one that lockstep was built against.
void check_libtorch_version();

}  // namespace lockstep::comm
