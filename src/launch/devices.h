#pragma once
#include <filesystem>

#include "base/env.h"

namespace lockstep::launch {

/// GPUs that a program started here would see: those whose device files are there, cut to
/// CUDA_VISIBLE_DEVICES as CUDA reads it. `root` stands for "/" in tests.
int visible_gpus(const base::Env& env, const std::filesystem::path& root = "/");

/// Turns --nproc-per-node into a number. Throws UsageError for "gpu" where there is none.
int local_world_size(const std::string& workers, const base::Env& env,
                     const std::filesystem::path& root = "/");

}  // namespace lockstep::launch
