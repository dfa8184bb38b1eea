#include <torch/nn/module.h>

#include "base/concat.h"
#include "checkpoint/dtypes.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace {

using base::concat;

// Python's order: a module's own parameters, its own buffers, then its children, each in order of
// registration.
void collect(const torch::nn::Module& module, const std::string& prefix, StateDict& state) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    if (parameter.value().defined())
      state.insert(prefix + parameter.key(), parameter.value().detach());
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) state.insert(prefix + buffer.key(), buffer.value().detach());
  }
  for (const auto& child : module.named_children())
    collect(*child.value(), prefix + child.key() + ".", state);
}

struct Misfits {
  std::string lines;
  int missing = 0;
  int unexpected = 0;
  int unlike = 0;

  void check(const StateDict& targets, const StateDict& state, bool strict) {
    for (const auto& target : targets) {
      const at::Tensor* const source = state.find(target.key());
      if (source == nullptr && strict) {
        ++missing;
        lines += concat("\n    missing: ", target.key(), " ", checkpoint::describe(target.value()));
      } else if (source != nullptr && !same(*source, target.value())) {
        ++unlike;
        lines += concat("\n    unlike: ", target.key(), " is ", checkpoint::describe(*source),
                        ", the module's is ", checkpoint::describe(target.value()));
      }
    }
    for (const auto& source : state) {
      if (!strict || targets.contains(source.key())) continue;
      ++unexpected;
      lines +=
          concat("\n    unexpected: ", source.key(), " ", checkpoint::describe(source.value()));
    }
  }

  static bool same(const at::Tensor& source, const at::Tensor& target) {
    return source.defined() && source.sizes() == target.sizes() &&
           source.scalar_type() == target.scalar_type();
  }
};

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict state;
  collect(module, "", state);
  return state;
}

void load_state_dict(torch::nn::Module& module, const StateDict& state, bool strict) {
  const StateDict targets = state_dict(module);
  Misfits misfits;
  misfits.check(targets, state, strict);
  if (!misfits.lines.empty()) {
    throw CheckpointError(
        concat("the state_dict does not fit the module ", module.name(), ": ", misfits.missing,
               " missing, ", misfits.unexpected, " unexpected, ", misfits.unlike,
               " of another shape or dtype", misfits.lines),
        "build the module as it was when it was saved, or pass strict = false to take only the "
        "names both sides have");
  }
  const at::NoGradGuard no_grad;
  for (const auto& target : targets) {
    if (const at::Tensor* const source = state.find(target.key()))
      at::Tensor(target.value()).copy_(*source);
  }
}

}  // namespace lockstep
