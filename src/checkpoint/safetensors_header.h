#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// One tensor of a safetensors file; `begin` and `end` count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The JSON at the head of a safetensors file. The format has no checksum; lockstep adds one over
/// header and data among the file's free metadata, where others pass over it.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::string checksum;  ///< eight hexadecimal digits; empty in files of others
};

/// The longest header that the format allows.
inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;

/// Reads a header, whose data have `data_bytes` bytes. Throws CheckpointError unless every field is
/// there and of its kind, names are unique, and the tensors' bytes fill the data, without gap or
/// overlap.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

/// The header's text, padded to a multiple of eight bytes, with `header.checksum` in it.
std::string safetensors_header_text(const SafetensorsHeader& header);

/// The text with the digits of its checksum as zeros: what the checksum itself is made over.
std::string without_checksum(std::string text, const std::string& checksum);

}  // namespace lockstep::checkpoint
