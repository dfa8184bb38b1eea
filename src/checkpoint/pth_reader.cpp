#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/concat.h"
#include "checkpoint/doors.h"
#include "checkpoint/dtypes.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/pickle.h"
#include "checkpoint/zip_reader.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;
using checkpoint::describe;
using checkpoint::Dtype;
using checkpoint::Pickle;
using checkpoint::PickleNode;
using checkpoint::ZipEntry;
using checkpoint::ZipReader;
using Ref = PickleNode::Ref;

constexpr const char* kRebuildV2 = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildV3 = "torch._utils._rebuild_tensor_v3";
constexpr const char* kParameter = "torch._utils._rebuild_parameter";
constexpr const char* kSize = "torch.Size";
constexpr const char* kCounter = "collections.Counter";
constexpr const char* kUntypedStorage = "torch.storage.UntypedStorage";

// The part of a global's name after "torch.", or nothing.
std::string_view torch_name(std::string_view global) {
  constexpr std::string_view kPrefix = "torch.";
  return global.starts_with(kPrefix) ? global.substr(kPrefix.size()) : std::string_view();
}

bool allowed(std::string_view global) {
  for (const char* name : {kRebuildV2, kRebuildV3, kParameter, kSize, kCounter, kUntypedStorage}) {
    if (global == name) return true;
  }
  const auto name = torch_name(global);
  return !name.empty() &&
         (checkpoint::find_storage_class(name) || checkpoint::find_dtype_named(name));
}

[[noreturn]] void malformed(const std::string& what) {
  throw CheckpointError(concat("its pickle is malformed: ", what));
}

template <class T>
const T& expect(const PickleNode& node, const char* wanted) {
  const T* const value = std::get_if<T>(&node.value);
  if (value == nullptr) malformed(concat(describe(node), " stands where ", wanted, " belongs"));
  return *value;
}

// Turns the nodes of a pickle into values, reading storages as they are met.
class Builder {
 public:
  Builder(const ZipReader& zip, std::string root, std::size_t pickle_bytes, std::size_t operations)
      : zip_(zip),
        root_(std::move(root)),
        budget_(std::max(kLeastBudget, 4 * operations + 4 * pickle_bytes / kTextBytesPerUnit)) {}

  Value build(const PickleNode& node) {
    spend(1);
    if (++depth_ > kDeepest) malformed(concat("it is nested deeper than ", kDeepest, " levels"));
    Value value = std::visit([&](const auto& data) { return convert(data); }, node.value);
    --depth_;
    return value;
  }

 private:
  static constexpr int kDeepest = 64;
  static constexpr std::size_t kLeastBudget = std::size_t{1} << 18;
  static constexpr std::size_t kTextBytesPerUnit = 16;

  // One node may be referred to often and nest others that are; the values made of them are copies.
  // So both depth and volume are bounded, by what no file of torch.save comes near.
  void spend(std::size_t units) {
    if (units > budget_) malformed("it grows far beyond its own size");
    budget_ -= units;
  }

  const std::string& spend_text(const std::string& text) {
    spend(text.size() / kTextBytesPerUnit);
    return text;
  }

  Value convert(std::monostate) { return {}; }
  Value convert(bool value) { return value; }
  Value convert(std::int64_t value) { return value; }
  Value convert(double value) { return value; }
  Value convert(const std::string& value) { return spend_text(value); }
  Value convert(const PickleNode::List& list) { return build_all(list.items); }
  Value convert(const PickleNode::Tuple& tuple) { return Value::Tuple{build_all(tuple.items)}; }
  Value convert(const PickleNode::Global& global) {
    malformed(concat("'", global.name, "' stands alone, and there is no value for it here"));
  }
  Value convert(const PickleNode::Persistent&) {
    malformed("a storage stands alone; save tensors instead");
  }

  Value convert(const PickleNode::Dict& dict) {
    Value::Dict result;
    result.ordered = dict.ordered;
    std::set<Value::Key> keys;
    for (const auto& [key_node, value_node] : dict.items) {
      auto key = build_key(*key_node);
      if (!keys.insert(key).second) malformed(concat("a dict has ", describe(*key_node), " twice"));
      result.items.emplace_back(std::move(key), build(*value_node));
    }
    return result;
  }

  Value convert(const PickleNode::Call& call) {
    const auto& function = expect<PickleNode::Global>(*call.function, "a function").name;
    const auto& arguments = expect<PickleNode::Tuple>(*call.arguments, "arguments").items;
    if (function == kRebuildV2) return rebuild_tensor(arguments, nullptr);
    if (function == kRebuildV3) {
      if (arguments.size() < 7)
        malformed(concat(function, " has ", arguments.size(), " arguments"));
      const auto& name = expect<PickleNode::Global>(*arguments[6], "a dtype").name;
      const Dtype* const dtype = checkpoint::find_dtype_named(torch_name(name));
      if (dtype == nullptr) malformed(concat(name, " is no dtype"));
      return rebuild_tensor(arguments, dtype);
    }
    if (function == kParameter && arguments.size() == 3) {
      const at::Tensor tensor = build(*arguments[0]).tensor();
      return with_gradient(tensor, expect<bool>(*arguments[1], "requires_grad"));
    }
    if ((function == kSize || function == kCounter) && arguments.size() == 1)
      return build(*arguments[0]);
    malformed(concat("'", function, "' is called with ", arguments.size(), " arguments"));
  }

  Value::List build_all(const std::vector<Ref>& nodes) {
    Value::List values;
    values.reserve(std::min(nodes.size(), budget_));
    for (const Ref node : nodes) values.push_back(build(*node));
    return values;
  }

  Value::Key build_key(const PickleNode& node) {
    if (const auto* const number = std::get_if<std::int64_t>(&node.value)) return *number;
    return spend_text(expect<std::string>(node, "a dict's key, an int or a str,"));
  }

  // (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, metadata])
  at::Tensor rebuild_tensor(const std::vector<Ref>& arguments, const Dtype* dtype) {
    const std::size_t metadata_at = dtype == nullptr ? 6 : 7;
    if (arguments.size() < metadata_at || arguments.size() > metadata_at + 1) {
      malformed(concat("a tensor is made of ", arguments.size(), " parts"));
    }
    const Stored stored = find_storage(*arguments[0]);
    if (dtype == nullptr) dtype = stored.dtype;
    if (dtype == nullptr) malformed("a tensor has no dtype");
    const auto offset = expect<std::int64_t>(*arguments[1], "an offset");
    const auto sizes = integers(*arguments[2]);
    const auto strides = integers(*arguments[3]);
    const auto& storage = *stored.storage;
    const auto elements = storage.nbytes() / c10::elementSize(dtype->type);
    if (!fits(offset, sizes, strides, elements)) {
      malformed(concat("a ", dtype->name, " tensor of sizes [", at::IntArrayRef(sizes),
                       "] reaches out of its storage of ", elements, " elements"));
    }
    at::Tensor tensor =
        at::empty({0}, at::TensorOptions(dtype->type)).set_(storage, offset, sizes, strides);
    if (arguments.size() > metadata_at) set_metadata(tensor, *arguments[metadata_at]);
    return with_gradient(tensor, expect<bool>(*arguments[4], "requires_grad"));
  }

  static at::Tensor with_gradient(const at::Tensor& tensor, bool requires_grad) {
    if (requires_grad && !at::isFloatingType(tensor.scalar_type()) &&
        !at::isComplexType(tensor.scalar_type())) {
      malformed("a tensor of integers requires a gradient");
    }
    return tensor.detach().set_requires_grad(requires_grad);
  }

  // The lazy conjugation and negation bits, as in {'conj': True}.
  static void set_metadata(const at::Tensor& tensor, const PickleNode& node) {
    const auto& properties = expect<PickleNode::Dict>(node, "a dict").items;
    if (properties.size() > 2) malformed("a tensor has more properties than there are");
    for (const auto& [key, value] : properties) {
      const auto& name = expect<std::string>(*key, "a name");
      const bool on = expect<bool>(*value, "a bool");
      if (name == "conj" && tensor.is_complex()) {
        tensor._set_conj(on);
      } else if (name == "neg") {
        tensor._set_neg(on);
      } else {
        malformed(concat("a tensor has the property '", name, "'"));
      }
    }
  }

  static std::vector<std::int64_t> integers(const PickleNode& node) {
    constexpr std::size_t kMostDimensions = 64;
    const auto& items = expect<PickleNode::Tuple>(node, "a tuple").items;
    if (items.size() > kMostDimensions)
      malformed(concat("a tensor has ", items.size(), " dimensions"));
    std::vector<std::int64_t> values;
    for (const Ref item : items) values.push_back(expect<std::int64_t>(*item, "a whole number"));
    return values;
  }

  // Whether every element lies inside the storage; libtorch would enlarge the storage instead.
  static bool fits(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides, std::size_t elements) {
    if (offset < 0 || sizes.size() != strides.size()) return false;
    std::uint64_t last = static_cast<std::uint64_t>(offset);
    std::uint64_t count = 1;
    bool overflow = false;
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      if (sizes[index] < 0 || strides[index] < 0) return false;
      const auto size = static_cast<std::uint64_t>(sizes[index]);
      std::uint64_t step = 0;
      overflow |= __builtin_mul_overflow(count, std::max<std::uint64_t>(size, 1), &count);
      if (size > 1)
        overflow |=
            __builtin_mul_overflow(size - 1, static_cast<std::uint64_t>(strides[index]), &step);
      overflow |= __builtin_add_overflow(last, step, &last);
    }
    if (overflow || count > std::uint64_t{INT64_MAX}) return false;
    const bool empty = std::ranges::find(sizes, 0) != sizes.end();
    return empty ? static_cast<std::uint64_t>(offset) <= elements : last < elements;
  }

  struct Stored {
    const c10::Storage* storage = nullptr;
    const Dtype* dtype = nullptr;  // null: untyped
  };

  // ("storage", class, key, device, elements)
  Stored find_storage(const PickleNode& node) {
    const auto& id = expect<PickleNode::Tuple>(
                         *expect<PickleNode::Persistent>(node, "a storage").id, "a storage's name")
                         .items;
    if (id.size() != 5) malformed(concat("a storage is named by ", id.size(), " parts"));
    const auto& class_name = expect<PickleNode::Global>(*id[1], "a storage class").name;
    const auto& key = expect<std::string>(*id[2], "a storage's key");
    const auto elements = expect<std::int64_t>(*id[4], "a number of elements");
    Stored stored;
    stored.dtype = checkpoint::find_storage_class(torch_name(class_name));
    if (stored.dtype == nullptr && class_name != kUntypedStorage)
      malformed(concat(class_name, " is no storage class"));
    stored.storage = &load_storage(key);
    const auto element = stored.dtype ? c10::elementSize(stored.dtype->type) : 1;
    if (elements < 0 ||
        static_cast<std::uint64_t>(elements) != stored.storage->nbytes() / element) {
      malformed(concat("storage ", key, " is said to have ", elements, " elements, its record has ",
                       stored.storage->nbytes() / element));
    }
    return stored;
  }

  const c10::Storage& load_storage(const std::string& key) {
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    const ZipEntry* const entry = zip_.find(concat(root_, "data/", key));
    if (entry == nullptr) malformed(concat("storage ", key, " is not in the file"));
    // Of bytes that are there: the reader has checked the entry against the file's size.
    const at::Tensor bytes =
        at::empty({static_cast<std::int64_t>(entry->size)}, at::TensorOptions(at::kByte));
    zip_.read(*entry, {static_cast<std::byte*>(bytes.mutable_data_ptr()),
                       static_cast<std::size_t>(entry->size)});
    return storages_.emplace(key, bytes.storage()).first->second;
  }

  const ZipReader& zip_;
  const std::string root_;
  std::size_t budget_;
  int depth_ = 0;
  std::map<std::string, c10::Storage> storages_;
};

void check_byte_order(const ZipReader& zip, const std::string& root) {
  constexpr std::size_t kLongest = 16;
  const ZipEntry* const entry = zip.find(root + "byteorder");
  if (entry == nullptr) return;
  const auto bytes = zip.read(*entry, kLongest);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little") {
    throw CheckpointError(
        concat("its numbers are in '", order, "' byte order, this machine's in 'little'"),
        "save it again on a little-endian machine");
  }
}

Value read_pth(const std::filesystem::path& path) {
  auto source = checkpoint::file_source(path);
  checkpoint::check_is_pth(source);
  const ZipReader zip(std::move(source));
  if (zip.entries().empty()) throw CheckpointError("the zip container is empty");
  const std::string& first = zip.entries().front().name;
  const std::string root = first.substr(0, first.find('/') + 1);
  checkpoint::check_is_not_torchscript(zip, root);
  const ZipEntry* const entry = zip.find(root + "data.pkl");
  if (entry == nullptr) {
    throw CheckpointError(
        concat("a zip file without '", root, "data.pkl' is no PyTorch checkpoint"),
        "check the path");
  }
  check_byte_order(zip, root);
  constexpr std::uint64_t kLongestPickle = std::uint64_t{1} << 30;
  const auto bytes = zip.read(*entry, kLongestPickle);
  const Pickle pickle = checkpoint::read_pickle(bytes, allowed);
  return Builder(zip, root, bytes.size(), pickle.operations).build(*pickle.root);
}

}  // namespace

Value load_value(const std::filesystem::path& path) {
  Value value;
  checkpoint::loading(path, [&] { value = read_pth(path); });
  return value;
}

StateDict load(const std::filesystem::path& path) {
  StateDict state;
  checkpoint::loading(path, [&] { state = read_pth(path).state_dict(); });
  return state;
}

}  // namespace lockstep
