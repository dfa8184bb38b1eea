#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using base::concat;
using Json = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "lockstep.crc32";
constexpr int kDeepest = 3;  // {"name": {"shape": [1]}}
constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kAlignment = 8;

[[noreturn]] void malformed(const std::string& what) {
  throw CheckpointError(concat("its safetensors header is malformed: ", what),
                        "use a copy of the file, or an earlier one");
}

// Refuses what the format forbids before it costs memory: deep nesting, and a name twice.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) malformed("it is nested too deep");
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names_.insert(parsed.get<std::string>()).second) {
      malformed(concat("'", parsed.get<std::string>(), "' is there twice"));
    }
    return true;
  }

 private:
  std::set<std::string> names_;
};

const Json& field(const Json& tensor, const std::string& name, const char* field) {
  const auto found = tensor.find(field);
  if (found == tensor.end()) malformed(concat("'", name, "' has no ", field));
  return *found;
}

std::uint64_t number(const Json& value, const std::string& name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    malformed(concat("'", name, "' has a size or offset that is no whole number in range"));
  }
  return value.get<std::uint64_t>();
}

SafetensorsEntry parse_entry(const std::string& name, const Json& tensor) {
  if (!tensor.is_object()) malformed(concat("'", name, "' is no tensor"));
  const Json& dtype = field(tensor, name, "dtype");
  const Json& shape = field(tensor, name, "shape");
  const Json& offsets = field(tensor, name, "data_offsets");
  if (!dtype.is_string() || !shape.is_array() || shape.size() > kMostDimensions ||
      !offsets.is_array() || offsets.size() != 2) {
    malformed(concat("'", name, "' has a dtype, shape or data_offsets of another kind"));
  }
  SafetensorsEntry entry{.name = name, .dtype = dtype.get<std::string>()};
  for (const Json& size : shape)
    entry.shape.push_back(static_cast<std::int64_t>(number(size, name)));
  entry.begin = number(offsets[0], name);
  entry.end = number(offsets[1], name);
  return entry;
}

void check_layout(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::vector<const SafetensorsEntry*> sorted;
  sorted.reserve(entries.size());
  for (const auto& entry : entries) sorted.push_back(&entry);
  std::ranges::sort(sorted, [](const auto* left, const auto* right) {
    return std::pair(left->begin, left->end) < std::pair(right->begin, right->end);
  });
  std::uint64_t at = 0;
  for (const auto* entry : sorted) {
    if (entry->begin != at || entry->end < entry->begin || entry->end > data_bytes) {
      malformed(concat("'", entry->name, "' lies at bytes ", entry->begin, " to ", entry->end,
                       " of ", data_bytes, ", not from ", at, " on, where the one before it ends"));
    }
    at = entry->end;
  }
  if (at != data_bytes)
    malformed(concat("its tensors have ", at, " bytes, the file has ", data_bytes, " for them"));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes) {
  Json root;
  try {
    root = Json::parse(json, [guard = std::make_shared<Guard>()](
                                 int depth, Json::parse_event_t event, Json& parsed) {
      return (*guard)(depth, event, parsed);
    });
  } catch (const Json::exception& error) {
    malformed(error.what());
  }
  if (!root.is_object()) malformed("it is no JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name != kMetadata) {
      header.entries.push_back(parse_entry(name, value));
    } else if (value.is_object() && value.contains(kChecksum) && value[kChecksum].is_string()) {
      header.checksum = value[kChecksum].get<std::string>();
    }
  }
  check_layout(header.entries, data_bytes);
  return header;
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  Json root;
  root[kMetadata] = {{"format", "pt"}, {kChecksum, header.checksum}};
  for (const auto& entry : header.entries) {
    if (entry.name == kMetadata || root.contains(entry.name)) {
      throw CheckpointError(
          concat("a tensor cannot be named '", entry.name, "' in a safetensors file"));
    }
    root[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const Json::exception&) {
    throw CheckpointError("a tensor's name is not UTF-8", "use UTF-8 names");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

std::string without_checksum(std::string text, const std::string& checksum) {
  const std::string entry = concat("\"", kChecksum, "\":\"", checksum, "\"");
  const auto at = text.find(entry);
  if (at == std::string::npos) malformed("its checksum is not where lockstep writes it");
  text.replace(at + entry.size() - 1 - checksum.size(), checksum.size(), checksum.size(), '0');
  return text;
}

}  // namespace lockstep::checkpoint
