#include "ddp/reducer.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "base/concat.h"
#include "ddp/bucket_plan.h"

namespace lockstep::ddp {
namespace {

using base::concat;

std::size_t mebibytes(double amount, const char* name) {
  if (!(amount > 0)) throw UsageError(concat(name, " is ", amount), "give a number of MiB above 0");
  return static_cast<std::size_t>(amount * 1024 * 1024);
}

/// A tensor over part of `flat`, in the shape of `like`. Not a view in autograd's sense: optimizers
/// call detach_() on gradients, which views refuse.
at::Tensor plain_alias(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  const bool dense = like.is_non_overlapping_and_dense();
  const auto strides =
      dense ? like.strides().vec() : at::empty(like.sizes(), at::kMeta).strides().vec();
  return at::empty({0}, flat.options())
      .set_(flat.storage(), flat.storage_offset() + offset, like.sizes(), strides);
}

}  // namespace

Reducer::Reducer(std::shared_ptr<torch::nn::Module> module, Group group,
                 const DistributedDataParallelOptions& options)
    : module_(std::move(module)),
      group_(std::move(group)),
      broadcast_buffers_(options.broadcast_buffers) {
  std::vector<NamedTensor> all_parameters, all_buffers;
  for (const auto& item : module_->named_parameters())
    all_parameters.push_back({item.key(), item.value()});
  for (const auto& item : module_->named_buffers())
    all_buffers.push_back({item.key(), item.value()});
  check_same_model(
      group_, all_parameters, all_buffers,
      concat("bucket_cap_mb=", options.bucket_cap_mb, " first_bucket_mb=", options.first_bucket_mb,
             " broadcast_buffers=", options.broadcast_buffers, " init_sync=", options.init_sync));
  std::vector<at::Tensor> state;
  for (const NamedTensor& buffer : all_buffers) buffers_.push_back(buffer.tensor);
  for (const NamedTensor& parameter : all_parameters) {
    state.push_back(parameter.tensor);
    if (parameter.tensor.requires_grad())
      parameters_.push_back({parameter.name, parameter.tensor, {}});
  }
  if (parameters_.empty())
    throw UsageError("the module has no parameter that requires a gradient",
                     "a module without one needs no DistributedDataParallel");
  if (options.init_sync) {
    state.insert(state.end(), buffers_.begin(), buffers_.end());
    broadcast_tensors(group_, state, 0);
    buffers_are_fresh_ = true;
  }
  // A world of one costs nothing: its gradients are the averages.
  if (group_.size() == 1) return;
  make_buckets(options);
  add_hooks();
}

Reducer::~Reducer() {
  for (const auto& remove : remove_hooks_) remove();
}

void Reducer::make_buckets(const DistributedDataParallelOptions& options) {
  std::vector<PlanItem> items;
  std::vector<std::pair<at::ScalarType, at::Device>> kinds;
  for (const Parameter& parameter : parameters_) {
    const auto kind = std::make_pair(parameter.tensor.scalar_type(), parameter.tensor.device());
    const auto at = std::find(kinds.begin(), kinds.end(), kind);
    items.push_back({parameter.tensor.nbytes(), static_cast<int>(at - kinds.begin())});
    if (at == kinds.end()) kinds.push_back(kind);
  }
  for (auto& members : plan_buckets(items, mebibytes(options.first_bucket_mb, "first_bucket_mb"),
                                    mebibytes(options.bucket_cap_mb, "bucket_cap_mb"))) {
    Bucket bucket;
    bucket.members = std::move(members);
    std::int64_t elements = 0;
    for (const std::size_t index : bucket.members) elements += parameters_[index].tensor.numel();
    const auto count = static_cast<std::int64_t>(bucket.members.size());
    const at::Tensor& like = parameters_[bucket.members.front()].tensor;
    bucket.flat = group_.empty({elements + count}, like.options().requires_grad(false)).zero_();
    bucket.flags = bucket.flat.narrow(0, elements, count);
    bucket.flags.fill_(1);
    std::int64_t offset = 0, flag = 0;
    for (const std::size_t index : bucket.members) {
      Parameter& parameter = parameters_[index];
      const at::Tensor& tensor = parameter.tensor;
      parameter.view = plain_alias(bucket.flat, offset, tensor);
      parameter.bucket = buckets_.size();
      parameter.flag = flag++;
      offset += tensor.numel();
    }
    bucket.tag = concat("bucket ", buckets_.size(), ": ", parameters_[bucket.members.front()].name,
                        bucket.members.size() > 1 ? " ..." : "");
    buckets_.push_back(std::move(bucket));
  }
}

void Reducer::add_hooks() {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[index].tensor);
    auto hook = std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, index](const torch::autograd::variable_list& outputs,
                      const torch::autograd::variable_list&) {
          on_gradient(index);
          return outputs;
        });
    const auto key = accumulator->add_post_hook(std::move(hook));
    // The parameter refers to its accumulator weakly: without this reference the hook would go with
    // it.
    remove_hooks_.push_back([accumulator, key] { accumulator->del_post_hook(key); });
  }
}

void Reducer::before_forward() {
  if (!broadcast_buffers_ || buffers_.empty() || buffers_are_fresh_ || no_sync_depth_ > 0) return;
  // Once a step: a second forward before backward must not change what autograd has saved.
  broadcast_tensors(group_, buffers_, 0);
  buffers_are_fresh_ = true;
}

void Reducer::on_gradient(std::size_t index) {
  Parameter& parameter = parameters_[index];
  parameter.used = true;
  if (no_sync_depth_ > 0) return;
  if (backward_id_ != torch::autograd::get_current_graph_task_id()) begin_backward();
  if (parameter.ready) return;
  parameter.ready = true;
  place_in_bucket(parameter);
  --buckets_[parameter.bucket].missing;
  launch_ready_buckets();
}

void Reducer::begin_backward() {
  backward_id_ = torch::autograd::get_current_graph_task_id();
  next_bucket_ = 0;
  for (Parameter& parameter : parameters_) parameter.ready = false;
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.members.size();
    bucket.work.reset();
    // Flags that are all 1 average to 1: they need writing only after a step in which one was not.
    if (bucket.some_unused) bucket.flags.fill_(1);
    bucket.some_unused = false;
  }
  torch::autograd::Engine::get_default_engine().queue_callback([this] { end_backward(); });
}

void Reducer::place_in_bucket(Parameter& parameter) {
  const torch::NoGradGuard no_grad;
  const at::Tensor& gradient = parameter.tensor.grad();
  if (gradient.defined()) {
    if (!gradient.is_alias_of(parameter.view)) {
      parameter.view.copy_(gradient);
      parameter.tensor.mutable_grad() = parameter.view;
    }
  } else {
    parameter.view.zero_();
  }
  if (parameter.used) return;
  Bucket& bucket = buckets_[parameter.bucket];
  bucket.flags[parameter.flag].zero_();
  bucket.some_unused = true;
}

void Reducer::launch_ready_buckets() {
  // The last one is left to the end of backward, which follows at once and would only wait for it.
  for (; next_bucket_ + 1 < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_)
    launch(buckets_[next_bucket_], /*async_op=*/true);
}

void Reducer::launch(Bucket& bucket, bool async_op) {
  bucket.work =
      group_.all_reduce(bucket.flat, ReduceOp::kAvg, {.async_op = async_op, .tag = bucket.tag});
}

void Reducer::end_backward() {
  backward_id_ = -1;
  // What this backward did not reach still takes part: with what no_sync left in it, or with zeros.
  for (Parameter& parameter : parameters_)
    if (!parameter.ready) place_in_bucket(parameter);
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  launch_ready_buckets();
  launch(buckets_.back(), /*async_op=*/false);
  for (Bucket& bucket : buckets_) finish_bucket(bucket);
  for (Parameter& parameter : parameters_) parameter.used = false;
  buffers_are_fresh_ = false;
}

void Reducer::finish_bucket(Bucket& bucket) {
  bucket.work->wait();
  bucket.work.reset();
  if (!bucket.some_unused) return;
  const at::Tensor used_anywhere = bucket.flags.gt(0).cpu();
  for (const std::size_t index : bucket.members) {
    Parameter& parameter = parameters_[index];
    if (!parameter.tensor.grad().defined() && used_anywhere[parameter.flag].item<bool>())
      parameter.tensor.mutable_grad() = parameter.view;
  }
}

}  // namespace lockstep::ddp
