#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/shared_bytes.h"

namespace lockstep::data {

/// True for bytes that begin as every gzip file does, whatever the file is called.
bool is_gzip(std::span<const std::uint8_t> file);

/// Inflates a whole gzip file (RFC 1952) of one or more members and checks their CRCs and sizes.
///
/// The size that the file claims is only a hint: no more is allocated than 8 times the file, or 4
/// times what was seen to come out of it. Throws DataError, naming `path` and the offset, for a
/// file that is cut short, damaged, or followed by anything else.
SharedBytes gunzip(std::span<const std::uint8_t> file, const std::filesystem::path& path);

}  // namespace lockstep::data
