#pragma once
/// Checkpoints that Python and C++ both read and write: state_dicts and whole training states as
/// `.pth`.
///
///     lockstep::save(lockstep::state_dict(*net), "model.pth");            // Python:
///     torch.load("model.pth") lockstep::load_state_dict(*net, lockstep::load("model.pth"));
///
///     using Dict = lockstep::Value::Dict;
///     lockstep::save(Dict{{"model", lockstep::state_dict(*net)},
///                         {"optimizer", lockstep::optimizer_state_dict(adam)},
///                         {"epoch", 3}}, "train.pth");
///     const lockstep::Value state = lockstep::load_value("train.pth");
///     lockstep::load_state_dict(*net, state.at("model").state_dict());
///     lockstep::load_optimizer_state_dict(adam, state.at("optimizer"));
///
/// Everything here is local: let rank 0 alone save, and every rank load. Different files may be
/// used by different threads at once. Errors are CheckpointError (lockstep/error.h) that name the
/// file or the entry.

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/error.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep {

/// Tensors by name, in the order in which the module registered them, as in Python.
using StateDict = torch::OrderedDict<std::string, at::Tensor>;

/// The module's parameters and buffers under Python's names ("fc1.weight"). The tensors share
/// memory with the module: saving copies nothing, and training on changes them.
StateDict state_dict(const torch::nn::Module& module);

/// Copies the values into the module. All missing and, when `strict`, unexpected names and every
/// unlike shape or dtype are listed in one error, and then nothing has been changed. Not strict:
/// names that only one side has are passed over.
void load_state_dict(torch::nn::Module& module, const StateDict& state, bool strict = true);

/// What a checkpoint holds: None, bool, int, float, str, tensor, or a list, tuple or dict of such.
class Value {
 public:
  using List = std::vector<Value>;
  using Key = std::variant<std::int64_t, std::string>;
  struct Tuple {
    std::vector<Value> items;
  };
  /// In order of insertion; a key appears once.
  struct Dict {
    Dict() = default;
    Dict(std::initializer_list<std::pair<Key, Value>> entries);
    std::vector<std::pair<Key, Value>> items;
    bool ordered = false;  ///< Python sees a collections.OrderedDict, as a module's state_dict is
  };

  Value() = default;
  template <std::integral T>
  Value(T value) : data_(convert(value)) {}
  Value(double value) : data_(value) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(at::Tensor value) : data_(std::move(value)) {}
  Value(List value) : data_(std::move(value)) {}
  Value(Tuple value) : data_(std::move(value)) {}
  Value(Dict value) : data_(std::move(value)) {}
  Value(const StateDict& value);

  bool is_none() const { return std::holds_alternative<std::monostate>(data_); }

  /// The value as what it is; of another kind, throws CheckpointError naming both. `real` takes an
  /// int too, `items` a list or a tuple.
  bool boolean() const;
  std::int64_t integer() const;
  double real() const;
  const std::string& text() const;
  const at::Tensor& tensor() const;
  const std::vector<Value>& items() const;
  const Dict& dict() const;

  /// A dict of tensors by name; throws CheckpointError naming the first entry that is none.
  StateDict state_dict() const;

  /// A dict's entry. `at` throws CheckpointError listing the keys there are; `find` returns null.
  const Value& at(std::string_view key) const;
  const Value& at(std::int64_t key) const;
  const Value* find(std::string_view key) const;

  using Data = std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor,
                            List, Tuple, Dict>;
  const Data& data() const { return data_; }

 private:
  template <std::integral T>
  static Data convert(T value) {
    if constexpr (std::same_as<T, bool>) return value;
    return static_cast<std::int64_t>(value);
  }

  Data data_;
};

/// Writes what Python's `torch.save` writes: `torch.load(path)` (weights_only, mmap too) opens it.
/// The file appears whole or not at all: until all bytes are on the disk an earlier one of that
/// name stays. Tensors that share memory share it in the file; those on a GPU are written as CPU
/// tensors.
void save(const Value& value, const std::filesystem::path& path);
/// A template only so that an unqualified call prefers it to torch::save, which cannot write a
/// StateDict.
template <std::convertible_to<std::filesystem::path> Path>
void save(const StateDict& state, Path&& path) {
  save(Value(state), std::filesystem::path(std::forward<Path>(path)));
}

/// Reads what Python's `torch.save` or `save` above wrote, from the file alone: nothing is imported
/// or executed, and every checksum is compared. Tensors arrive on the CPU, sharing memory as they
/// did.
StateDict load(const std::filesystem::path& path);
Value load_value(const std::filesystem::path& path);

/// The same for safetensors files, which hold tensors by name and nothing else; tensors that share
/// memory come apart. The format has no checksum: one is added as metadata, and compared where it
/// is there.
void save_safetensors(const StateDict& state, const std::filesystem::path& path);
StateDict load_safetensors(const std::filesystem::path& path);

/// The optimizer's state in Python's layout, {'state': {0: {...}}, 'param_groups': [...]}; tensors
/// share memory with it. For SGD, Adam, AdamW, RMSprop and Adagrad.
Value optimizer_state_dict(const torch::optim::Optimizer& optimizer);

/// Takes over the state that `optimizer_state_dict` or Python's `optimizer.state_dict()` gave,
/// options such as the learning rate included. Everything that does not fit is listed in one error,
/// and then nothing has been changed.
void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const Value& state);

}  // namespace lockstep
