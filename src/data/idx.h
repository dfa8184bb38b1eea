#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/shared_bytes.h"

namespace lockstep::data {

/// An array of bytes as an idx file (MNIST's format) holds it.
struct IdxArray {
  std::vector<std::int64_t> dims;
  SharedBytes values;
  /// Where the values begin in the file (inflated, for a gzip file): for messages about one of
  /// them.
  std::size_t offset = 0;
};

/// Reads an idx file of unsigned bytes in `dimensions` dimensions, gzip or not: the content tells,
/// not the name. Throws DataError, naming the path, unless the size matches the header to the byte.
IdxArray read_idx(const std::filesystem::path& path, int dimensions);

/// The same from bytes in memory, already inflated; `path` is for messages.
IdxArray parse_idx(const SharedBytes& file, const std::filesystem::path& path, int dimensions);

}  // namespace lockstep::data
