#pragma once
#include <string>

#include "checkpoint/byte_source.h"
#include "checkpoint/zip_reader.h"

namespace lockstep::checkpoint {

/// Throws CheckpointError that says what the file is instead, as far as its first bytes tell, and
/// what to do about it; returns when it begins as a zip file does.
void check_is_pth(const ByteSource& source);

/// Throws CheckpointError when the container holds a TorchScript archive, which C++'s torch::save
/// makes too.
void check_is_not_torchscript(const ZipReader& zip, const std::string& root);

}  // namespace lockstep::checkpoint
