#pragma once
/// Data parallelism over processes: each rank runs the whole model on its share of the batch, and
/// gradients are averaged over the ranks while backward still runs.
///
///     auto world = lockstep::init_process_group();
///     SimpleNN net;
///     lockstep::DistributedDataParallel model(net, world);
///     auto loss = torch::nn::functional::cross_entropy(model(images), labels);
///     loss.backward();                       // returns with averaged gradients
///     optimizer.step();                      // the same step on every rank
///
/// Thread-safety: one thread at a time. Errors: lockstep/error.h; they come out of the constructor,
/// forward or backward() on every rank that takes part.

#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "lockstep/comm.h"

namespace lockstep {

/// PyTorch's arguments and defaults, where lockstep needs them.
struct DistributedDataParallelOptions {
  /// Gradients travel in buckets of about this many MiB: large enough for bandwidth, small enough
  /// to start while backward still computes.
  double bucket_cap_mb = 25;
  /// The first bucket is smaller, so that communication starts early.
  double first_bucket_mb = 1;
  /// Copy rank 0's buffers (BatchNorm's running statistics) to all ranks, before the first forward
  /// of each step.
  bool broadcast_buffers = true;
  /// Copy rank 0's parameters and buffers to all ranks at construction. Off: they must be equal
  /// already.
  bool init_sync = true;
};

namespace ddp {
class Reducer;

/// What does not depend on the module's type.
class Wrapper {
 public:
  Wrapper(std::shared_ptr<torch::nn::Module> module, Group group,
          const DistributedDataParallelOptions& options);
  ~Wrapper();
  Wrapper(Wrapper&&) noexcept;
  Wrapper& operator=(Wrapper&&) noexcept;

  const Group& group() const;
  void before_forward();

  Reducer& reducer() { return *reducer_; }

 private:
  std::unique_ptr<Reducer> reducer_;
};

/// While one lives, backward() leaves gradients local and adds them up. What counts is whether one
/// lives when backward() runs; they nest.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(Reducer& reducer);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Reducer& reducer_;
};

}  // namespace ddp

/// Wraps a module: a `torch::nn::ModuleHolder` such as `SimpleNN`, or a `std::shared_ptr` to a
/// module.
///
/// The module stays the user's: its parameters are trained by any optimizer, and saved under their
/// own names. Gradients live in the buckets: `parameter.grad()` is a view of one, and stays one
/// when the optimizer's zero_grad() dropped it. A parameter that no rank used in a step keeps its
/// gradient as it was; one that only some ranks used counts as zero on the others. Forward may also
/// run on the module itself: gradients are averaged all the same, but buffers are not broadcast.
template <class ModuleT>
class DistributedDataParallel {
 public:
  /// Collective. Compares names, shapes and dtypes of all parameters and buffers over the ranks
  /// (MismatchError on every rank, naming the first that differs), then copies rank 0's values to
  /// all.
  explicit DistributedDataParallel(ModuleT module, Group group = world(),
                                   const DistributedDataParallelOptions& options = {})
      : module_(std::move(module)), wrapper_(pointer(module_), std::move(group), options) {}

  /// Collective once per step where the module has buffers to broadcast; else local.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    wrapper_.before_forward();
    return module_->forward(std::forward<Arguments>(arguments)...);
  }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// Local. Gradient accumulation: `{ auto local = model.no_sync(); loss.backward(); }`
  ddp::NoSync no_sync() { return ddp::NoSync(wrapper_.reducer()); }

  ModuleT& module() { return module_; }
  auto* operator->() { return &*module_; }
  auto parameters() const { return module_->parameters(); }
  const Group& group() const { return wrapper_.group(); }

 private:
  template <class Impl>
  static std::shared_ptr<torch::nn::Module> pointer(const std::shared_ptr<Impl>& module) {
    return module;
  }
  template <class Holder>
  static std::shared_ptr<torch::nn::Module> pointer(const Holder& holder) {
    return holder.ptr();
  }

  ModuleT module_;
  ddp::Wrapper wrapper_;
};

}  // namespace lockstep
