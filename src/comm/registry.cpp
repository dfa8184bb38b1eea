#include "comm/registry.h"

#include "base/concat.h"
#include "comm/backends/gloo/gloo.h"
#include "comm/backends/hierarchical/hierarchical.h"
#include "comm/backends/mpi/mpi.h"
#include "comm/backends/nccl/nccl.h"
#include "comm/backends/shm/shm.h"
#include "comm/backends/solo/solo.h"
#include "lockstep/error.h"

namespace lockstep::comm {

const std::vector<BackendEntry>& backends() {
  static const std::vector<BackendEntry> entries = {
      {.name = "solo", .why_not = solo::why_not, .create = solo::create, .averages = true},
      {.name = "shm",
       .why_not = shm::why_not,
       .create = shm::create,
       .checks_itself = true,
       .shares_memory = true,
       .averages = true},
      {.name = "hierarchical",
       .why_not = hierarchical::why_not,
       .create = hierarchical::create,
       .shares_memory = true,
       .averages = true},
      {.name = "gloo", .why_not = gloo::why_not, .create = gloo::create},
      {.name = "mpi",
       .why_not = mpi::why_not,
       .create = mpi::create,
       .gather_before_meeting = mpi::gather_before_meeting},
      {.name = "nccl", .why_not = nccl::why_not, .create = nccl::create, .on_stream = true},
  };
  return entries;
}

void check_backend_name(const std::string& name) {
  std::string known;
  for (const BackendEntry& entry : backends()) {
    if (name == "auto" || name == entry.name) return;
    known += base::concat(known.empty() ? "" : ", ", entry.name);
  }
  throw UsageError(base::concat("there is no backend '", name, "'"),
                   base::concat("choose auto or one of: ", known));
}

const BackendEntry& entry_called(const std::string& name) {
  for (const BackendEntry& entry : backends())
    if (name == entry.name) return entry;
  throw InternalError(base::concat("there is no backend '", name, "'"));
}

const BackendEntry& choose_backend(const std::string& name, const BackendContext& context) {
  // A group of one has nobody to talk to, whatever the backend's name.
  if (context.size == 1) return backends().front();
  check_backend_name(name);
  std::string reasons;
  for (const BackendEntry& entry : backends()) {
    if (name != "auto" && name != entry.name) continue;
    const std::string reason = entry.why_not(context);
    if (reason.empty()) return entry;
    reasons += base::concat("\n  ", entry.name, ": ", reason);
  }
  throw UsageError(base::concat("backend '", name, "' cannot serve this group:", reasons),
                   "choose another backend");
}

}  // namespace lockstep::comm
