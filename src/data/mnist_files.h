#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "data/shared_bytes.h"

namespace lockstep::data {

inline constexpr std::int64_t kMnistSide = 28;
inline constexpr int kMnistClasses = 10;

/// One split of MNIST, checked: `images` holds count * 28 * 28 bytes, `labels` holds count, each
/// below 10.
struct MnistFiles {
  std::int64_t count = 0;
  SharedBytes images;
  SharedBytes labels;
};

/// Finds and reads "<stem>-images" and "<stem>-labels" in `folder` or its MNIST/raw/, under each of
/// the names in use, gzip or not. Throws DataError: which names were tried and what is there, or
/// what is wrong with a file.
MnistFiles read_mnist_files(const std::filesystem::path& folder, const std::string& stem);

}  // namespace lockstep::data
