#pragma once
#include <libdeflate.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "data/shared_bytes.h"

namespace lockstep::test {

using Bytes = std::vector<std::uint8_t>;

/// The project's own MNIST.
inline std::filesystem::path mnist_folder() { return LOCKSTEP_SOURCE_DIR "/data/mnist"; }

inline void write(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

inline Bytes read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline data::SharedBytes shared(const Bytes& bytes) {
  const std::shared_ptr<std::uint8_t[]> copy(new std::uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return {std::shared_ptr<std::uint8_t>(copy, copy.get()), bytes.size()};
}

/// An idx file: its header, then values that count up from 0 and wrap below `below`.
inline Bytes idx(std::initializer_list<std::uint32_t> dims, unsigned below = 256) {
  Bytes file = {0, 0, 8, static_cast<std::uint8_t>(dims.size())};
  std::size_t count = 1;
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<std::uint8_t>(dim >> shift));
    count *= dim;
  }
  for (std::size_t i = 0; i < count; ++i) file.push_back(static_cast<std::uint8_t>(i % below));
  return file;
}

inline Bytes gzip(const Bytes& plain) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(6), &libdeflate_free_compressor);
  Bytes packed(libdeflate_gzip_compress_bound(compressor.get(), plain.size()));
  packed.resize(libdeflate_gzip_compress(compressor.get(), plain.data(), plain.size(),
                                         packed.data(), packed.size()));
  return packed;
}

/// What a call throws as an Error of kind `Kind`, or "" when it throws nothing.
template <class Kind, class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::test
