#include "data/idx.h"

#include <iomanip>
#include <limits>
#include <sstream>

#include "base/concat.h"
#include "base/file.h"
#include "data/gzip.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using base::concat;

constexpr std::uint32_t kUnsignedByte = 0x08;

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string hex(std::uint32_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << std::setw(8) << std::setfill('0') << value;
  return std::move(text).str();
}

// A product that is too large to hold stays at the largest value, which no file's size equals.
std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

void check_magic(std::uint32_t magic, int dimensions, const std::filesystem::path& path) {
  const std::uint32_t expected = kUnsignedByte << 8 | static_cast<std::uint32_t>(dimensions);
  if (magic == expected) return;
  if (magic >> 8 == kUnsignedByte) {
    throw DataError(concat(path, ": idx file has ", magic & 0xff, " dimensions where ", dimensions,
                           " are expected"),
                    "images have 3 and labels 1: check that the files are not swapped");
  }
  throw DataError(
      concat(path, ": file begins with ", hex(magic), ", an idx file of unsigned bytes in ",
             dimensions, " dimensions with ", hex(expected)),
      "the file is damaged or not an idx file: fetch it again");
}

}  // namespace

IdxArray parse_idx(const SharedBytes& file, const std::filesystem::path& path, int dimensions) {
  const auto bytes = file.view();
  const std::size_t header = 4 + 4 * static_cast<std::size_t>(dimensions);
  if (bytes.size() >= 4) check_magic(big_endian(bytes), dimensions, path);
  if (bytes.size() < header) {
    throw DataError(concat(path, ": file has ", bytes.size(), " bytes, header needs ", header),
                    "the file is cut short: fetch it again");
  }
  IdxArray array;
  std::uint64_t body = 1;
  std::string shape;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::uint32_t dim = big_endian(bytes.subspan(at));
    array.dims.push_back(dim);
    body = saturating_product(body, dim);
    shape += concat(at == 4 ? "" : " x ", dim);
  }
  if (body != bytes.size() - header) {
    throw DataError(concat(path, ": header promises ", shape, " values, but ",
                           bytes.size() - header, " bytes follow it"),
                    body > bytes.size() - header
                        ? "the file is cut short or its header damaged: fetch it again"
                        : "the file is too long or its header damaged: fetch it again");
  }
  array.values = {std::shared_ptr<std::uint8_t>(file.data, file.data.get() + header),
                  bytes.size() - header};
  array.offset = header;
  return array;
}

IdxArray read_idx(const std::filesystem::path& path, int dimensions) {
  auto content = std::make_shared<std::vector<std::byte>>(base::read_file(path));
  auto* const begin = reinterpret_cast<std::uint8_t*>(content->data());
  SharedBytes file{std::shared_ptr<std::uint8_t>(content, begin), content->size()};
  if (is_gzip(file.view())) file = gunzip(file.view(), path);
  return parse_idx(file, path, dimensions);
}

}  // namespace lockstep::data
