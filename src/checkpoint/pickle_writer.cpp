#include <bit>
#include <limits>

#include "checkpoint/pickle.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kProtocol = 2;

// Length of the UTF-8 sequence at the start of `text`, 0 where there is none (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index)
    if ((byte(index) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool outside = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return outside ? 0 : length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

PickleWriter::PickleWriter() {
  op(PickleOp::kProto);
  bytes_.push_back(kProtocol);
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int index = 0; index < bytes; ++index)
    bytes_.push_back(static_cast<char>(value >> (8 * index)));
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    op(PickleOp::kBinInt);
    return little_endian(static_cast<std::uint64_t>(value), 4);
  }
  op(PickleOp::kLong1);
  bytes_.push_back(8);
  little_endian(static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::real(double value) {
  op(PickleOp::kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) bytes_.push_back(static_cast<char>(bits >> shift));
}

void PickleWriter::text(std::string_view value) {
  if (!is_utf8(value)) {
    throw CheckpointError("a name or text is not UTF-8, which Python could not read",
                          "use UTF-8 names");
  }
  if (value.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw CheckpointError("a text is longer than 4 GiB", "keep bulk data in tensors");
  }
  op(PickleOp::kBinUnicode);
  little_endian(value.size(), 4);
  bytes_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  op(PickleOp::kGlobal);
  bytes_ += module;
  bytes_ += '\n';
  bytes_ += name;
  bytes_ += '\n';
}

std::string PickleWriter::finish() {
  op(PickleOp::kStop);
  return std::move(bytes_);
}

}  // namespace lockstep::checkpoint
