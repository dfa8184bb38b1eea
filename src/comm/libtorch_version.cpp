#include "comm/libtorch_version.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/version.h>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::comm {

void check_libtorch_version() {
  // The top two bytes are major and minor.
  const std::uint64_t loaded = aoti_torch_abi_version();
  const auto major = static_cast<int>(loaded >> 56),
             minor = static_cast<int>((loaded >> 48) & 0xff);
  if (major == TORCH_VERSION_MAJOR && minor == TORCH_VERSION_MINOR) return;
  throw UsageError(
      base::concat("lockstep was built against libtorch ", TORCH_VERSION_MAJOR, ".",
                   TORCH_VERSION_MINOR, ", but libtorch ", major, ".", minor, " is loaded"),
      "rebuild against the loaded version, or put the other one first in LD_LIBRARY_PATH");
}

}  // namespace lockstep::comm
