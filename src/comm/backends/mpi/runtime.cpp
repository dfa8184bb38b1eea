#include "comm/backends/mpi/runtime.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/concat.h"
#include "base/deadline.h"
#include "base/env.h"
#include "base/shared_library.h"
#include "comm/backends/mpi/early_exit.h"
#include "comm/backends/mpi/flavor.h"
#include "lockstep/error.h"

namespace lockstep::comm::mpi {
namespace {

using base::concat;
namespace fs = std::filesystem;

/// A program that is linked with an MPI itself has made the choice.
std::optional<Flavor> flavor_of_program() {
  using Version = int (*)(char* text, int* length);
  void* const symbol = base::loaded_symbol("MPI_Get_library_version");
  if (symbol == nullptr) return std::nullopt;
  char text[8192] = "";  // MPI_MAX_LIBRARY_VERSION_STRING of both flavors is less
  int length = 0;
  reinterpret_cast<Version>(symbol)(text, &length);
  return flavor_of_version(text);
}

/// The module, or why there is none.
struct Found {
  const Module* module = nullptr;
  std::string reason;
};

Found load(Flavor flavor) {
  std::string looked;
  const fs::path here = base::folder_of_code(reinterpret_cast<const void*>(&load));
  for (const fs::path& file : module_candidates(flavor, base::Env::of_process(), here)) {
    looked += concat(looked.empty() ? "" : ", ", file.string());
    if (!fs::exists(file)) continue;
    try {
      const base::SharedLibrary library(file);
      const auto door = reinterpret_cast<Door>(library.symbol(kDoorName));
      if (door != nullptr && door()->version == Module::kVersion) return {door(), ""};
      return {nullptr, concat(file.string(), " is of another version of lockstep; remove it")};
    } catch (const UsageError& error) {
      return {nullptr, concat(error.happened(), " (", error.remedy(), ")")};
    }
  }
  return {nullptr, concat("lockstep's module for ", name_of(flavor), " is at none of ", looked,
                          "; build lockstep where ", name_of(flavor),
                          " is installed, or set LOCKSTEP_MPI_MODULE to the module's path")};
}

Found find() {
  const auto launched = launched_by(base::Env::of_process());
  if (!launched)
    return {nullptr, "no MPI launcher started this process; start it by mpirun or mpiexec instead"};
  const auto linked = flavor_of_program();
  if (linked && *linked != *launched)
    return {nullptr,
            concat("this program is linked with ", name_of(*linked), " but was started by ",
                   name_of(*launched), "; start it by ", name_of(*linked), "'s mpirun")};
  return load(*launched);
}

const Found& found() {
  static const Found result = find();
  return result;
}

const char* name_of(Threads threads) {
  switch (threads) {
    case Threads::kOne:
      return "MPI_THREAD_SINGLE";
    case Threads::kTheFirstOnly:
      return "MPI_THREAD_FUNNELED";
    case Threads::kOneAtATime:
      return "MPI_THREAD_SERIALIZED";
    case Threads::kAny:
      return "MPI_THREAD_MULTIPLE";
  }
  return "an unknown level";
}

constexpr std::chrono::seconds kEndingLimit{1};

}  // namespace

std::string Runtime::why_not() { return found().reason; }

Runtime& Runtime::instance() {
  if (const std::string reason = why_not(); !reason.empty()) throw UsageError(reason);
  // Never destroyed: MPI ends in an exit handler, and groups may outlive it.
  static Runtime* const runtime = new Runtime(*found().module);
  runtime->require_use();
  return *runtime;
}

void Runtime::require_use() const {
  if (started_.over)
    throw UsageError("this program has finalized MPI already",
                     "end the groups before MPI_Finalize, or leave both to lockstep");
  if (started_.threads == Threads::kOne || started_.threads == Threads::kTheFirstOnly)
    throw UsageError(concat("MPI was initialised with ", name_of(started_.threads),
                            ", but a group's calls come from threads of its own"),
                     started_.ours
                         ? "use an MPI library built with thread support"
                         : "ask for MPI_THREAD_MULTIPLE in the program's MPI_Init_thread");
}

Runtime::Runtime(const Module& module) : module_(&module) {
  if (const int code = module_->start(&started_); code != 0) throw_error("MPI_Init_thread", code);
  mpi_is_up();
  if (started_.ours)
    ::on_exit([](int status, void* self) { static_cast<Runtime*>(self)->end(status); }, this);
}

void Runtime::throw_error(const char* what, int code) {
  char text[1024] = "";
  module_->explain(code, text, sizeof text);
  throw InternalError(concat(what, ": ", text));
}

void Runtime::abandon(std::any buffers) {
  const std::lock_guard lock(abandoned_mutex_);
  abandoned_.push_back(std::move(buffers));
}

void Runtime::end(int status) noexcept {
  ending_ = true;
  const auto deadline = base::Deadline::in(kEndingLimit);
  while (present_ > 0 && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::lock_guard lock(abandoned_mutex_);
  // MPI_Finalize would wait for transfers that nobody completes.
  if (status == 0 && present_ == 0 && abandoned_.empty()) {
    module_->finish();
  } else {
    module_->abort(status == 0 ? 1 : status);
  }
}

}  // namespace lockstep::comm::mpi
