#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/outcome.h"

namespace lockstep::launch {

/// What the system knew before the workers ran, to be compared with after.
struct SystemBefore {
  std::optional<std::uint64_t> out_of_memory_kills;
  static SystemBefore now();
};

/// What the bare status does not say: "killed by the kernel's out-of-memory killer", "/dev/shm is
/// full", "a shared library is missing". Empty when there is nothing to add.
std::string explain(const WorkerOutcome& worker, const SystemBefore& before);

/// Reads what the worker wrote to its TORCHELASTIC_ERROR_FILE into `error` and
/// `error_file_content`.
void read_error_file(const std::filesystem::path& path, WorkerOutcome& worker);

/// Hands the cause up: to the launcher's own TORCHELASTIC_ERROR_FILE, in the form torchrun uses.
/// A file that cannot be written is told to the log.
void write_error_file(const std::filesystem::path& path, const WorkerOutcome& cause);

}  // namespace lockstep::launch
