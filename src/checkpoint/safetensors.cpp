#include <ATen/ATen.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/concat.h"
#include "base/file.h"
#include "checkpoint/byte_source.h"
#include "checkpoint/doors.h"
#include "checkpoint/dtypes.h"
#include "checkpoint/safetensors_header.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;
using checkpoint::Dtype;
using checkpoint::SafetensorsEntry;
using checkpoint::SafetensorsHeader;

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kNoChecksum = "00000000";

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    // An empty tensor has no address, and zlib takes a null one as "begin anew".
    if (bytes.empty()) return;
    value_ = ::crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  std::string text() const {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08lx", value_);
    return digits;
  }

 private:
  uLong value_ = ::crc32_z(0, nullptr, 0);
};

// A tensor as its bytes will be in the file.
struct Item {
  at::Tensor tensor;
  std::size_t entry = 0;  // in the header
};

Item prepare(const std::string& name, const at::Tensor& tensor, SafetensorsHeader& header) {
  const Dtype* const dtype =
      tensor.defined() ? checkpoint::find_dtype(tensor.scalar_type()) : nullptr;
  if (dtype == nullptr || dtype->safetensors == nullptr || tensor.layout() != c10::kStrided ||
      tensor.is_meta()) {
    throw CheckpointError(concat("'", name, "', ", checkpoint::describe(tensor),
                                 ", has no place in a safetensors file"),
                          "convert it to a dense tensor of a plain dtype, or save a .pth");
  }
  header.entries.push_back(
      {.name = name, .dtype = dtype->safetensors, .shape = tensor.sizes().vec()});
  return {tensor.detach().resolve_conj().resolve_neg().cpu().contiguous(),
          header.entries.size() - 1};
}

void write_safetensors(const StateDict& state, base::AtomicFile& file) {
  SafetensorsHeader header;
  header.checksum = kNoChecksum;
  std::vector<Item> items;
  for (const auto& item : state) items.push_back(prepare(item.key(), item.value(), header));
  // Wide elements first, so that each tensor is aligned to its own.
  std::ranges::stable_sort(items, std::ranges::greater(),
                           [](const Item& item) { return item.tensor.element_size(); });
  std::uint64_t at = 0;
  for (const Item& item : items) {
    header.entries[item.entry].begin = at;
    header.entries[item.entry].end = at += item.tensor.nbytes();
  }
  Checksum checksum;
  const std::string draft = checkpoint::safetensors_header_text(header);
  checksum.add(std::as_bytes(std::span(draft)));
  for (const Item& item : items) checksum.add(bytes_of(item.tensor));
  header.checksum = checksum.text();

  const std::string text = checkpoint::safetensors_header_text(header);
  static_assert(std::endian::native == std::endian::little);
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const Item& item : items) file.write(bytes_of(item.tensor));
  file.commit();
}

std::string read_header(const checkpoint::ByteSource& source) {
  std::uint64_t length = 0;
  if (source.size < kLengthBytes)
    throw CheckpointError(
        concat("a safetensors file has at least 8 bytes, this one ", source.size));
  source.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > checkpoint::kLongestSafetensorsHeader || length > source.size - kLengthBytes) {
    throw CheckpointError(
        concat("its header would have ", length, " bytes, the file has ", source.size),
        "the file was cut short, or is no safetensors file");
  }
  std::string text(length, '\0');
  source.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

// Whether the shape in that dtype has just the bytes that the entry spans.
const Dtype& check_size(const SafetensorsEntry& entry) {
  const Dtype* const dtype = checkpoint::find_safetensors_dtype(entry.dtype);
  if (dtype == nullptr)
    throw CheckpointError(concat("'", entry.name, "' has the unknown dtype '", entry.dtype, "'"));
  std::uint64_t bytes = c10::elementSize(dtype->type);
  bool overflow = false;
  bool empty = false;
  for (const auto size : entry.shape) {
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(
        bytes, std::max<std::uint64_t>(static_cast<std::uint64_t>(size), 1), &bytes);
  }
  if (overflow || (empty ? 0 : bytes) != entry.end - entry.begin) {
    throw CheckpointError(concat("'", entry.name, "' of dtype ", entry.dtype, " and shape [",
                                 at::IntArrayRef(entry.shape), "] does not have the ",
                                 entry.end - entry.begin, " bytes that the file has for it"));
  }
  return *dtype;
}

StateDict read_safetensors(const std::filesystem::path& path) {
  const auto source = checkpoint::file_source(path);
  const std::string text = read_header(source);
  const std::uint64_t data = kLengthBytes + text.size();
  const SafetensorsHeader header = checkpoint::parse_safetensors_header(text, source.size - data);
  StateDict state;
  std::vector<const SafetensorsEntry*> in_file_order;
  for (const auto& entry : header.entries) {
    state.insert(entry.name, at::empty(entry.shape, at::TensorOptions(check_size(entry).type)));
    in_file_order.push_back(&entry);
  }
  std::ranges::stable_sort(in_file_order, {},
                           [](const auto* entry) { return std::pair(entry->begin, entry->end); });
  Checksum checksum;
  if (!header.checksum.empty()) {
    checksum.add(
        std::as_bytes(std::span<const char>(checkpoint::without_checksum(text, header.checksum))));
  }
  for (const auto* entry : in_file_order) {
    const at::Tensor& tensor = state[entry->name];
    source.read(data + entry->begin,
                {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    if (!header.checksum.empty()) checksum.add(bytes_of(tensor));
  }
  if (!header.checksum.empty() && checksum.text() != header.checksum) {
    throw CheckpointError("it does not have its checksum: header or data are damaged",
                          "use a copy of the file, or an earlier one");
  }
  return state;
}

}  // namespace

void save_safetensors(const StateDict& state, const std::filesystem::path& path) {
  std::size_t needed = 0;
  for (const auto& item : state) needed += item.value().defined() ? item.value().nbytes() : 0;
  checkpoint::saving(path, needed, [&] {
    base::AtomicFile file(path);
    write_safetensors(state, file);
  });
}

StateDict load_safetensors(const std::filesystem::path& path) {
  StateDict state;
  checkpoint::loading(path, [&] { state = read_safetensors(path); });
  return state;
}

}  // namespace lockstep
