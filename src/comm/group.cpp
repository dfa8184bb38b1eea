#include <torch/torch.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "base/concat.h"
#include "comm/group_impl.h"

namespace lockstep {
namespace {

using base::concat;
using Impl = Group::Impl;

/// A tensor as backends take it: contiguous, real, outside autograd. When it had to be copied,
/// `give_back` writes the result into the caller's tensor.
struct Flat {
  explicit Flat(const at::Tensor& tensor) : original(tensor.detach()) {
    const at::Tensor real = original.is_complex() ? at::view_as_real(original) : original;
    data = real.contiguous();
    copied = !data.is_same(real);
  }
  void give_back() const {
    if (copied) original.copy_(original.is_complex() ? at::view_as_complex(data) : data);
  }

  at::Tensor original;
  at::Tensor data;
  bool copied = false;
};

void require(bool holds, const Impl& impl, const char* op, const std::string& happened,
             const std::string& remedy) {
  if (holds) return;
  ErrorContext context;
  context.rank = impl.rank;
  context.world_size = impl.size;
  context.op = op;
  context.backend = impl.backend_name;
  throw UsageError(happened, remedy, context);
}

void require_tensor(const at::Tensor& tensor, const Impl& impl, const char* op) {
  require(tensor.defined(), impl, op, "the tensor is undefined", "pass a tensor that holds data");
  require(tensor.layout() == at::kStrided, impl, op,
          concat("the tensor's layout is ", tensor.layout()),
          "collectives take dense tensors: call to_dense() first");
}

void require_rank(int rank, const Impl& impl, const char* op, const char* what) {
  require(rank >= 0 && rank < impl.size, impl, op, concat(what, " ", rank, " is outside the group"),
          concat("ranks run from 0 to ", impl.size - 1));
}

void require_parts(const at::Tensor& whole, const at::Tensor& part, const Impl& impl,
                   const char* op) {
  require_tensor(whole, impl, op);
  require_tensor(part, impl, op);
  require(whole.scalar_type() == part.scalar_type(), impl, op,
          concat("the tensors' dtypes differ: ", whole.scalar_type(), " and ", part.scalar_type()),
          "use one dtype");
  require(whole.numel() == part.numel() * impl.size, impl, op,
          concat("one tensor has ", whole.numel(), " elements, the other ", part.numel(),
                 ", in a group of ", impl.size),
          concat("the larger must have ", impl.size, " times the elements of the smaller"));
}

void require_alike(const std::vector<at::Tensor>& list, const at::Tensor& like, bool is_root,
                   const Impl& impl, const char* op) {
  const std::size_t expected = is_root ? static_cast<std::size_t>(impl.size) : 0;
  require(list.size() == expected, impl, op, concat("the list has ", list.size(), " tensors"),
          concat("on this rank it must have ", expected,
                 ": one for each rank on the root, none elsewhere"));
  require_tensor(like, impl, op);
  for (const at::Tensor& tensor : list) {
    require_tensor(tensor, impl, op);
    require(tensor.sizes() == like.sizes() && tensor.scalar_type() == like.scalar_type(), impl, op,
            concat("a tensor of the list is ", tensor.scalar_type(), tensor.sizes(),
                   ", the other tensor ", like.scalar_type(), like.sizes()),
            "all must have one shape and dtype");
  }
}

void require_reducible(const at::Tensor& tensor, ReduceOp op, const Impl& impl, const char* name) {
  require_tensor(tensor, impl, name);
  const at::ScalarType dtype = tensor.scalar_type();
  const bool bitwise = op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
  require(!bitwise || at::isIntegralType(dtype, /*includeBool=*/true), impl, name,
          concat("a bitwise operation on ", dtype), "use integers or bool");
  require(!at::isComplexType(dtype) || op == ReduceOp::kSum || op == ReduceOp::kAvg, impl, name,
          concat("this operation on ", dtype), "complex numbers can be summed and averaged only");
  require(dtype != at::kBool || op != ReduceOp::kAvg, impl, name, "an average of bool",
          "convert to a number first");
}

/// What the backend computes: averages are sums, divided afterwards.
c10d::ReduceOp transfer_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return c10d::ReduceOp::SUM;
    case ReduceOp::kProduct:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kBitAnd:
      return c10d::ReduceOp::BAND;
    case ReduceOp::kBitOr:
      return c10d::ReduceOp::BOR;
    case ReduceOp::kBitXor:
      return c10d::ReduceOp::BXOR;
  }
  throw InternalError("unknown ReduceOp");
}

void finish_average(const at::Tensor& sum, ReduceOp op, int size) {
  if (op != ReduceOp::kAvg || size == 1) return;
  if (at::isIntegralType(sum.scalar_type(), /*includeBool=*/false)) {
    sum.div_(size, "trunc");
  } else {
    sum.div_(size);
  }
}

/// Starts one collective: `start(call)` gives the backend's work, `finish` completes the result in
/// the first wait.
template <class Start>
Work run(const std::shared_ptr<Impl>& impl, const char* op, const CallOptions& options,
         std::source_location where, Start start, std::function<void()> finish = {}) {
  const Impl::Call call = impl->begin(op, options, where);
  auto state = std::make_shared<Work::State>(Work::State{{}, impl, call, std::move(finish)});
  try {
    state->pending = start(call);
  } catch (...) {
    std::rethrow_exception(impl->translate(std::current_exception(), call));
  }
  Work work(std::move(state));
  if (!options.async_op) work.wait();
  return work;
}

}  // namespace

int Group::rank() const { return impl_->rank; }
int Group::size() const { return impl_->size; }
const std::string& Group::name() const { return impl_->name; }
const std::string& Group::backend() const { return impl_->backend_name; }
std::chrono::milliseconds Group::timeout() const { return impl_->timeout; }
const std::vector<int>& Group::world_ranks() const { return impl_->world_ranks; }
const c10::intrusive_ptr<c10d::Backend>& Group::c10d_backend() const { return impl_->backend; }
const c10::intrusive_ptr<c10d::Store>& Group::c10d_store() const { return impl_->store; }

Work Group::all_reduce(at::Tensor tensor, ReduceOp op, CallOptions options, Where where) {
  require_reducible(tensor, op, *impl_, "all_reduce");
  const Flat flat(tensor);
  return run(
      impl_, "all_reduce", options, where,
      [&](const Impl::Call& call) {
        c10d::AllreduceOptions settings;
        settings.reduceOp = transfer_op(op);
        settings.timeout = call.timeout;
        std::vector<at::Tensor> tensors{flat.data};
        return impl_->backend->allreduce(tensors, settings);
      },
      [flat, op, size = impl_->size] {
        finish_average(flat.data, op, size);
        flat.give_back();
      });
}

Work Group::broadcast(at::Tensor tensor, int root, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, "broadcast");
  require_rank(root, *impl_, "broadcast", "root");
  const Flat flat(tensor);
  return run(
      impl_, "broadcast", options, where,
      [&](const Impl::Call& call) {
        c10d::BroadcastOptions settings;
        settings.rootRank = root;
        settings.timeout = call.timeout;
        std::vector<at::Tensor> tensors{flat.data};
        return impl_->backend->broadcast(tensors, settings);
      },
      [flat] { flat.give_back(); });
}

Work Group::reduce(at::Tensor tensor, int root, ReduceOp op, CallOptions options, Where where) {
  require_reducible(tensor, op, *impl_, "reduce");
  require_rank(root, *impl_, "reduce", "root");
  Flat flat(tensor);
  const bool is_root = impl_->rank == root;
  // Backends use the others' tensors as scratch space.
  if (!is_root && !flat.copied) flat.data = flat.data.clone();
  return run(
      impl_, "reduce", options, where,
      [&](const Impl::Call& call) {
        c10d::ReduceOptions settings;
        settings.reduceOp = transfer_op(op);
        settings.rootRank = root;
        settings.timeout = call.timeout;
        std::vector<at::Tensor> tensors{flat.data};
        return impl_->backend->reduce(tensors, settings);
      },
      [flat, op, is_root, size = impl_->size] {
        if (!is_root) return;
        finish_average(flat.data, op, size);
        flat.give_back();
      });
}

Work Group::all_gather(at::Tensor output, at::Tensor input, CallOptions options, Where where) {
  require_parts(output, input, *impl_, "all_gather");
  const Flat from(input), to(output);
  return run(
      impl_, "all_gather", options, where,
      [&](const Impl::Call& call) {
        c10d::AllgatherOptions settings;
        settings.timeout = call.timeout;
        at::Tensor target = to.data.view(-1), source = from.data.view(-1);
        return impl_->backend->_allgather_base(target, source, settings);
      },
      [to] { to.give_back(); });
}

Work Group::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op, CallOptions options,
                           Where where) {
  require_parts(input, output, *impl_, "reduce_scatter");
  require_reducible(input, op, *impl_, "reduce_scatter");
  const Flat from(input), to(output);
  return run(
      impl_, "reduce_scatter", options, where,
      [&](const Impl::Call& call) {
        c10d::ReduceScatterOptions settings;
        settings.reduceOp = transfer_op(op);
        settings.timeout = call.timeout;
        at::Tensor target = to.data.view(-1), source = from.data.view(-1);
        return impl_->backend->_reduce_scatter_base(target, source, settings);
      },
      [to, op, size = impl_->size] {
        finish_average(to.data, op, size);
        to.give_back();
      });
}

Work Group::all_to_all(at::Tensor output, at::Tensor input, std::vector<std::int64_t> output_rows,
                       std::vector<std::int64_t> input_rows, CallOptions options, Where where) {
  const auto check = [&](const at::Tensor& tensor, const std::vector<std::int64_t>& rows,
                         const char* which) {
    require_tensor(tensor, *impl_, "all_to_all");
    require(tensor.dim() > 0, *impl_, "all_to_all", concat(which, " is a scalar"),
            "it needs rows to divide");
    std::int64_t total = 0;
    for (const std::int64_t count : rows) {
      require(count >= 0, *impl_, "all_to_all", concat("a count of ", which, "_rows is ", count),
              "give counts from 0");
      total += count;
    }
    const auto size = static_cast<std::size_t>(impl_->size);
    require(rows.empty() ? tensor.size(0) % impl_->size == 0
                         : rows.size() == size && total == tensor.size(0),
            *impl_, "all_to_all",
            concat(which, " has ", tensor.size(0), " rows, which its parts do not add up to"),
            "give one count a rank that sum to the rows, or rows that the group's size divides");
  };
  check(output, output_rows, "output");
  check(input, input_rows, "input");
  const Flat from(input), to(output);
  return run(
      impl_, "all_to_all", options, where,
      [&](const Impl::Call& call) {
        c10d::AllToAllOptions settings;
        settings.timeout = call.timeout;
        at::Tensor target = to.data, source = from.data;
        return impl_->backend->alltoall_base(target, source, output_rows, input_rows, settings);
      },
      [to] { to.give_back(); });
}

Work Group::gather(std::vector<at::Tensor> outputs, at::Tensor input, int root, CallOptions options,
                   Where where) {
  require_rank(root, *impl_, "gather", "root");
  require_alike(outputs, input, impl_->rank == root, *impl_, "gather");
  const Flat from(input);
  std::vector<Flat> to(outputs.begin(), outputs.end());
  return run(
      impl_, "gather", options, where,
      [&](const Impl::Call& call) {
        c10d::GatherOptions settings;
        settings.rootRank = root;
        settings.timeout = call.timeout;
        std::vector<std::vector<at::Tensor>> targets(to.empty() ? 0 : 1);
        for (const Flat& flat : to) targets[0].push_back(flat.data);
        std::vector<at::Tensor> sources{from.data};
        return impl_->backend->gather(targets, sources, settings);
      },
      [to] {
        for (const Flat& flat : to) flat.give_back();
      });
}

Work Group::scatter(at::Tensor output, std::vector<at::Tensor> inputs, int root,
                    CallOptions options, Where where) {
  require_rank(root, *impl_, "scatter", "root");
  require_alike(inputs, output, impl_->rank == root, *impl_, "scatter");
  const Flat to(output);
  const std::vector<Flat> from(inputs.begin(), inputs.end());
  return run(
      impl_, "scatter", options, where,
      [&](const Impl::Call& call) {
        c10d::ScatterOptions settings;
        settings.rootRank = root;
        settings.timeout = call.timeout;
        std::vector<std::vector<at::Tensor>> sources(from.empty() ? 0 : 1);
        for (const Flat& flat : from) sources[0].push_back(flat.data);
        std::vector<at::Tensor> targets{to.data};
        return impl_->backend->scatter(targets, sources, settings);
      },
      [to] { to.give_back(); });
}

Work Group::send(at::Tensor tensor, int to, int tag, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, Impl::kSend);
  require_rank(to, *impl_, Impl::kSend, "the receiver");
  require(to != impl_->rank, *impl_, Impl::kSend, "the receiver is this rank itself",
          "copy the tensor instead");
  const Flat flat(tensor);
  return run(impl_, Impl::kSend, options, where, [&](const Impl::Call&) {
    std::vector<at::Tensor> tensors{flat.data};
    return impl_->backend->send(tensors, to, tag);
  });
}

Work Group::recv(at::Tensor tensor, int from, int tag, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, Impl::kRecv);
  require_rank(from, *impl_, Impl::kRecv, "the sender");
  require(from != impl_->rank, *impl_, Impl::kRecv, "the sender is this rank itself",
          "copy the tensor instead");
  const Flat flat(tensor);
  return run(
      impl_, Impl::kRecv, options, where,
      [&](const Impl::Call&) {
        std::vector<at::Tensor> tensors{flat.data};
        return impl_->backend->recv(tensors, from, tag);
      },
      [flat] { flat.give_back(); });
}

void Group::barrier(CallOptions options, Where where) {
  const Impl::Call call = impl_->begin("barrier", options, where);
  if (impl_->size == 1) return;
  try {
    impl_->exchange.barrier(call.timeout);
  } catch (...) {
    std::rethrow_exception(impl_->translate(std::current_exception(), call));
  }
}

std::vector<std::string> Group::all_gather_text(const std::string& mine, Where where) {
  const Impl::Call call = impl_->begin("all_gather_text", {}, where);
  if (impl_->size == 1) return {mine};
  try {
    return impl_->exchange.all_gather(mine, call.timeout);
  } catch (...) {
    std::rethrow_exception(impl_->translate(std::current_exception(), call));
  }
}

}  // namespace lockstep
