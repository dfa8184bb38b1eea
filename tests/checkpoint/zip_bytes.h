#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

/// A record of a made-up zip file, and what its directory entry says about it instead of the truth.
struct ZipRecord {
  std::string name;
  std::string content;
  std::optional<std::uint32_t> size = std::nullopt;
  std::optional<std::uint32_t> offset = std::nullopt;
  std::uint16_t method = 0;
};

/// The file. `count` overrides the number of records its end speaks of.
std::string zip_bytes(const std::vector<ZipRecord>& records,
                      std::optional<std::uint16_t> count = std::nullopt);

}  // namespace lockstep::test
