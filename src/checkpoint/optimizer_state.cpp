#include <torch/optim.h>

#include <unordered_map>

#include "base/concat.h"
#include "checkpoint/dtypes.h"
#include "checkpoint/optimizer_layouts.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;
using torch::optim::Optimizer;

// Puts the fields of a layout into a dict.
class FieldWriter {
 public:
  void number(const char* name, double value) { add(name, value); }
  void flag(const char* name, bool value) { add(name, value); }
  void fixed(const char* name, bool value) { add(name, value); }
  void idle(const char* name, Value value = {}) { add(name, std::move(value)); }
  void pair(const char* name, const std::tuple<double, double>& value) {
    add(name, Value::Tuple{{std::get<0>(value), std::get<1>(value)}});
  }
  // Python counts steps in a float32 tensor.
  void step(std::int64_t value) { add("step", torch::tensor(static_cast<float>(value))); }
  void tensor(const char* name, const at::Tensor& value, bool) {
    if (value.defined()) add(name, value.detach());
  }

  Value::Dict take() { return std::move(dict_); }

 private:
  void add(const char* name, Value value) { dict_.items.emplace_back(name, std::move(value)); }

  Value::Dict dict_;
};

// Sets the fields of a layout from a dict; notes what does not fit, with `where` it was.
class FieldReader {
 public:
  FieldReader(const Value& dict, std::string where, std::string& problems)
      : dict_(dict), where_(std::move(where)), problems_(problems) {}

  /// Of the parameter that the tensors belong to.
  void belongs_to(const at::Tensor& parameter) { parameter_ = parameter; }

  void number(const char* name, double& field) {
    if (const Value* const value = required(name)) set_number(name, *value, field);
  }

  void flag(const char* name, bool& field) {
    const Value* const value = required(name);
    if (value == nullptr) return;
    if (const bool* const flag = std::get_if<bool>(&value->data())) {
      field = *flag;
    } else {
      problem(concat("'", name, "' is no bool"));
    }
  }

  void fixed(const char* name, bool only) {
    const Value* const value = dict_.find(name);
    const bool* const flag = value == nullptr ? nullptr : std::get_if<bool>(&value->data());
    if (flag != nullptr && *flag != only) {
      problem(concat("'", name, "' is ", *flag ? "True" : "False",
                     ", which this C++ optimizer cannot do"));
    }
  }

  void idle(const char*, const Value& = {}) {}

  void pair(const char* name, std::tuple<double, double>& field) {
    const Value* const value = required(name);
    if (value == nullptr) return;
    const auto* const tuple = std::get_if<Value::Tuple>(&value->data());
    const auto* const list = std::get_if<Value::List>(&value->data());
    const auto* const items = tuple != nullptr ? &tuple->items : list;
    if (items == nullptr || items->size() != 2)
      return problem(concat("'", name, "' is no pair of numbers"));
    set_number(name, (*items)[0], std::get<0>(field));
    set_number(name, (*items)[1], std::get<1>(field));
  }

  void step(std::int64_t& field) {
    double steps = 0;
    number("step", steps);
    constexpr double kMost = 9.0e15;  // whole numbers are exact in a double up to there
    if (!(steps >= 0 && steps <= kMost)) return problem("'step' is out of range");
    field = static_cast<std::int64_t>(steps);
  }

  void tensor(const char* name, at::Tensor& field, bool is_required) {
    const Value* const value = is_required ? required(name) : dict_.find(name);
    if (value == nullptr || value->is_none()) return;
    const auto* const tensor = std::get_if<at::Tensor>(&value->data());
    if (tensor == nullptr || !tensor->defined())
      return problem(concat("'", name, "' is no tensor"));
    if (tensor->sizes() != parameter_.sizes()) {
      return problem(concat("'", name, "' is ", checkpoint::describe(*tensor),
                            ", the parameter is ", checkpoint::describe(parameter_)));
    }
    const auto dtype =
        parameter_.is_floating_point() ? parameter_.scalar_type() : tensor->scalar_type();
    field = tensor->detach().to(parameter_.device(), dtype, /*non_blocking=*/false, /*copy=*/true);
  }

 private:
  void problem(const std::string& what) { problems_ += concat("\n    ", where_, ": ", what); }

  const Value* required(const char* name) {
    const Value* const value = dict_.find(name);
    if (value == nullptr) problem(concat("'", name, "' is missing"));
    return value;
  }

  // Python keeps some numbers in tensors of one element.
  void set_number(const char* name, const Value& value, double& field) {
    if (const auto* const real = std::get_if<double>(&value.data())) {
      field = *real;
    } else if (const auto* const integer = std::get_if<std::int64_t>(&value.data())) {
      field = static_cast<double>(*integer);
    } else if (const auto* const tensor = std::get_if<at::Tensor>(&value.data());
               tensor != nullptr && tensor->defined() && tensor->numel() == 1 &&
               !tensor->is_complex()) {
      field = tensor->item<double>();
    } else {
      problem(concat("'", name, "' is no number"));
    }
  }

  const Value& dict_;
  std::string where_;
  std::string& problems_;
  at::Tensor parameter_;
};

template <class Layout>
Value pack(const Optimizer& optimizer) {
  Value::Dict states;
  Value::List groups;
  std::int64_t index = 0;
  for (const auto& group : optimizer.param_groups()) {
    auto options = static_cast<const typename Layout::Options&>(group.options());
    FieldWriter option_fields;
    Layout::options(option_fields, options);
    Value::List indices;
    for (const auto& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) {
        auto state = static_cast<const typename Layout::State&>(*found->second);
        FieldWriter fields;
        Layout::state(fields, state, options);
        states.items.emplace_back(index, fields.take());
      }
      indices.emplace_back(index++);
    }
    auto packed = option_fields.take();
    packed.items.emplace_back("params", std::move(indices));
    groups.emplace_back(std::move(packed));
  }
  return Value::Dict{{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

// The new options and states, complete before anything of the optimizer is changed.
template <class Layout>
class Unpacker {
 public:
  Unpacker(const Optimizer& optimizer, const Value& value) {
    for (const auto& [key, state] : value.at("state").dict().items) {
      if (const auto* const index = std::get_if<std::int64_t>(&key)) saved_.emplace(*index, &state);
    }
    const auto& saved_groups = value.at("param_groups").items();
    const auto& groups = optimizer.param_groups();
    if (saved_groups.size() != groups.size()) {
      problems_ = concat("\n    ", saved_groups.size(),
                         " parameter groups are saved, the optimizer has ", groups.size());
      return;
    }
    for (std::size_t number = 0; number < groups.size(); ++number) {
      read_group(groups[number], saved_groups[number], concat("param_groups[", number, "]"));
    }
  }

  const std::string& problems() const { return problems_; }

  void commit(Optimizer& optimizer) {
    for (std::size_t number = 0; number < options_.size(); ++number) {
      static_cast<typename Layout::Options&>(optimizer.param_groups()[number].options()) =
          options_[number];
    }
    optimizer.state().clear();
    for (auto& [parameter, state] : states_) optimizer.state()[parameter] = std::move(state);
  }

 private:
  void read_group(const torch::optim::OptimizerParamGroup& group, const Value& saved,
                  const std::string& where) {
    FieldReader fields(saved, where, problems_);
    auto options = static_cast<const typename Layout::Options&>(group.options());
    Layout::options(fields, options);
    const auto& indices = saved.at("params").items();
    if (indices.size() != group.params().size()) {
      problems_ += concat("\n    ", where, ": ", indices.size(),
                          " parameters are saved, the optimizer has ", group.params().size());
      return;
    }
    for (std::size_t at = 0; at < indices.size(); ++at)
      read_state(group.params()[at], indices[at].integer(), options);
    options_.push_back(options);
  }

  void read_state(const at::Tensor& parameter, std::int64_t index,
                  typename Layout::Options& options) {
    const auto found = saved_.find(index);
    if (found == saved_.end() || found->second->dict().items.empty()) return;
    FieldReader fields(*found->second, concat("state[", index, "]"), problems_);
    fields.belongs_to(parameter);
    auto state = std::make_unique<typename Layout::State>();
    Layout::state(fields, *state, options);
    states_.emplace_back(parameter.unsafeGetTensorImpl(), std::move(state));
  }

  std::unordered_map<std::int64_t, const Value*> saved_;
  std::vector<typename Layout::Options> options_;
  std::vector<std::pair<void*, std::unique_ptr<typename Layout::State>>> states_;
  std::string problems_;
};

// Calls `use` with the layout of the optimizer's class.
template <class Use>
auto with_layout(const Optimizer& optimizer, const Use& use) {
  using namespace torch::optim;
  if (dynamic_cast<const Adam*>(&optimizer))
    return use(checkpoint::AdamLayout<AdamOptions, AdamParamState, false>());
  if (dynamic_cast<const AdamW*>(&optimizer))
    return use(checkpoint::AdamLayout<AdamWOptions, AdamWParamState, true>());
  if (dynamic_cast<const SGD*>(&optimizer)) return use(checkpoint::SgdLayout());
  if (dynamic_cast<const RMSprop*>(&optimizer)) return use(checkpoint::RmspropLayout());
  if (dynamic_cast<const Adagrad*>(&optimizer)) return use(checkpoint::AdagradLayout());
  throw CheckpointError(concat("the state of a ", c10::demangle(typeid(optimizer).name()),
                               " cannot be saved or loaded"),
                        "use SGD, Adam, AdamW, RMSprop or Adagrad");
}

}  // namespace

Value optimizer_state_dict(const Optimizer& optimizer) {
  return with_layout(optimizer, [&](auto layout) { return pack<decltype(layout)>(optimizer); });
}

void load_optimizer_state_dict(Optimizer& optimizer, const Value& state) {
  with_layout(optimizer, [&](auto layout) {
    Unpacker<decltype(layout)> unpacker(optimizer, state);
    if (!unpacker.problems().empty()) {
      throw CheckpointError(
          concat("the saved state does not fit the optimizer ",
                 c10::demangle(typeid(optimizer).name()), ":", unpacker.problems()),
          "make the optimizer as it was when it was saved, over the same parameters in the same "
          "order");
    }
    unpacker.commit(optimizer);
  });
}

}  // namespace lockstep
