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
  explicit Flat(const at::Tensor& tensor) : original(tensor), data(tensor) {
    if (tensor.is_contiguous() && !tensor.is_complex() && !tensor.requires_grad()) return;
    original = tensor.detach();
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
  context.backend = impl.backends->text();
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

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kBitAnd:
      return "bitand";
    case ReduceOp::kBitOr:
      return "bitor";
    case ReduceOp::kBitXor:
      return "bitxor";
  }
  throw InternalError("unknown ReduceOp");
}

/// What the backend computes. One that cannot average sums, and `finish_average` divides.
c10d::ReduceOp transfer_op(ReduceOp op, const comm::Served& served) {
  switch (op) {
    case ReduceOp::kAvg:
      return served.entry->averages ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
    case ReduceOp::kSum:
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

void finish_average(const at::Tensor& sum, ReduceOp op, const comm::Served& served) {
  if (op != ReduceOp::kAvg || served.size == 1 || served.entry->averages) return;
  if (at::isIntegralType(sum.scalar_type(), /*includeBool=*/false)) {
    sum.div_(served.size, "trunc");
  } else {
    sum.div_(served.size);
  }
}

using Pending = c10::intrusive_ptr<c10d::Work>;
/// Makes the backend's call, with the time that is left for it.
using Start = std::function<Pending(const comm::Served&, std::chrono::milliseconds)>;
using Finish = std::function<void(const comm::Served&)>;

std::chrono::milliseconds time_left(const Impl::Call& call) {
  // To c10d a limit of 0 means none.
  return std::max(call.deadline.remaining(), std::chrono::milliseconds(1));
}

/// Whether the other members learn of an error without this one's help.
bool is_known_to_all(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const host::Disagreement&) {
  } catch (const MismatchError&) {
  } catch (const TimeoutError&) {
  } catch (const PeerLost&) {
  } catch (const UsageError&) {  // all have made the same call
  } catch (...) {
    return false;
  }
  return true;
}

/// The whole of a collective on a backend whose calls block.
void perform(Impl& impl, const Impl::Call& call, const Start& start, const Finish& finish) {
  try {
    impl.agree(call);
    const comm::Served& served = impl.backends->on(call.device);
    const Pending pending = start(served, time_left(call));
    if (pending) pending->wait(time_left(call));
    finish(served);
    impl.end(call, true);
  } catch (...) {
    if (impl.turns && !is_known_to_all(std::current_exception())) impl.turns->rounds().fail();
    impl.end(call, false);
    throw;
  }
}

/// One collective: `start` makes the backend's call, `finish` completes the result.
Work run(const std::shared_ptr<Impl>& impl, const Impl::Topic& topic, const CallOptions& options,
         SourceLocation where, Start start, Finish finish) {
  const Impl::Call call = impl->begin(topic, options, where);
  auto state = std::make_shared<Work::State>(Work::State{impl, call});
  try {
    if (impl->backends->entry(call.device).on_stream) {
      impl->agree(call);
      const comm::Served& served = impl->backends->on(call.device);
      state->pending = start(served, time_left(call));
      state->finish = [served, finish = std::move(finish)] { finish(served); };
    } else if (options.async_op && impl->size > 1) {
      state->operation = std::make_shared<comm::Operation>();
      state->operation->run = [impl, call, start = std::move(start), finish = std::move(finish)] {
        perform(*impl, call, start, finish);
      };
      impl->progress.start(state->operation);
    } else {
      impl->progress.run([&] { perform(*impl, call, start, finish); });
      state->done = true;
    }
  } catch (...) {
    std::rethrow_exception(impl->translate(std::current_exception(), call));
  }
  Work work(std::move(state));
  if (!options.async_op) work.wait();
  return work;
}

/// One side of a transfer between two ranks. It waits for nobody else, so it is under way at once.
Work run_point_to_point(const std::shared_ptr<Impl>& impl, const Impl::Topic& topic,
                        const CallOptions& options, SourceLocation where, const Start& start,
                        Finish finish) {
  const Impl::Call call = impl->begin(topic, options, where);
  auto state = std::make_shared<Work::State>(Work::State{impl, call});
  try {
    const comm::Served& served = impl->backends->on(call.device);
    state->pending = start(served, time_left(call));
    state->finish = [served, finish = std::move(finish)] { finish(served); };
  } catch (...) {
    impl->end(call, false);
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
const std::string& Group::backend() const { return impl_->backends->text(); }
std::chrono::milliseconds Group::timeout() const { return impl_->timeout; }
const std::vector<int>& Group::world_ranks() const { return impl_->world_ranks; }
const c10::intrusive_ptr<c10d::Backend>& Group::c10d_backend() const {
  return impl_->backends->first().backend;
}
const c10::intrusive_ptr<c10d::Store>& Group::c10d_store() const { return impl_->store; }

at::Tensor Group::empty(at::IntArrayRef sizes, at::TensorOptions options) const {
  const auto& arena = impl_->world->host_memory.arena;
  if (!impl_->turns || !impl_->backends->first().entry->shares_memory || !options.device().is_cpu())
    return at::empty(sizes, options);
  const std::size_t bytes = options.dtype().itemsize() * c10::multiply_integers(sizes);
  const auto memory = host::allocate_shared(arena, bytes);
  return at::from_blob(
      memory.get(), sizes, [memory](void*) {}, options);
}

Work Group::all_reduce(at::Tensor tensor, ReduceOp op, CallOptions options, Where where) {
  require_reducible(tensor, op, *impl_, "all_reduce");
  const Flat flat(tensor);
  return run(
      impl_, {.op = "all_reduce", .tensor = &tensor, .reduce_op = name_of(op)}, options, where,
      [flat, op](const comm::Served& on, auto limit) {
        c10d::AllreduceOptions settings;
        settings.reduceOp = transfer_op(op, on);
        settings.timeout = limit;
        std::vector<at::Tensor> tensors{flat.data};
        return on.backend->allreduce(tensors, settings);
      },
      [flat, op](const comm::Served& on) {
        finish_average(flat.data, op, on);
        flat.give_back();
      });
}

Work Group::broadcast(at::Tensor tensor, int root, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, "broadcast");
  require_rank(root, *impl_, "broadcast", "root");
  const Flat flat(tensor);
  return run(
      impl_, {.op = "broadcast", .tensor = &tensor, .root = root}, options, where,
      [flat, root](const comm::Served& on, auto limit) {
        c10d::BroadcastOptions settings;
        settings.rootRank = root;
        settings.timeout = limit;
        std::vector<at::Tensor> tensors{flat.data};
        return on.backend->broadcast(tensors, settings);
      },
      [flat](const comm::Served&) { flat.give_back(); });
}

Work Group::reduce(at::Tensor tensor, int root, ReduceOp op, CallOptions options, Where where) {
  require_reducible(tensor, op, *impl_, "reduce");
  require_rank(root, *impl_, "reduce", "root");
  Flat flat(tensor);
  const bool is_root = impl_->rank == root;
  // Backends use the others' tensors as scratch space.
  if (!is_root && !flat.copied) flat.data = flat.data.clone();
  return run(
      impl_, {.op = "reduce", .tensor = &tensor, .reduce_op = name_of(op), .root = root}, options,
      where,
      [flat, root, op](const comm::Served& on, auto limit) {
        c10d::ReduceOptions settings;
        settings.reduceOp = transfer_op(op, on);
        settings.rootRank = root;
        settings.timeout = limit;
        std::vector<at::Tensor> tensors{flat.data};
        return on.backend->reduce(tensors, settings);
      },
      [flat, op, is_root](const comm::Served& on) {
        if (!is_root) return;
        finish_average(flat.data, op, on);
        flat.give_back();
      });
}

Work Group::all_gather(at::Tensor output, at::Tensor input, CallOptions options, Where where) {
  require_parts(output, input, *impl_, "all_gather");
  const Flat from(input), to(output);
  return run(
      impl_, {.op = "all_gather", .tensor = &input}, options, where,
      [from, to](const comm::Served& on, auto limit) {
        c10d::AllgatherOptions settings;
        settings.timeout = limit;
        at::Tensor target = to.data.view(-1), source = from.data.view(-1);
        return on.backend->_allgather_base(target, source, settings);
      },
      [to](const comm::Served&) { to.give_back(); });
}

Work Group::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op, CallOptions options,
                           Where where) {
  require_parts(input, output, *impl_, "reduce_scatter");
  require_reducible(input, op, *impl_, "reduce_scatter");
  const Flat from(input), to(output);
  return run(
      impl_, {.op = "reduce_scatter", .tensor = &input, .reduce_op = name_of(op)}, options, where,
      [from, to, op](const comm::Served& on, auto limit) {
        c10d::ReduceScatterOptions settings;
        settings.reduceOp = transfer_op(op, on);
        settings.timeout = limit;
        at::Tensor target = to.data.view(-1), source = from.data.view(-1);
        return on.backend->_reduce_scatter_base(target, source, settings);
      },
      [to, op](const comm::Served& on) {
        finish_average(to.data, op, on);
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
      impl_, {.op = "all_to_all", .tensor = &input, .any_shape = true}, options, where,
      [=](const comm::Served& on, auto limit) {
        c10d::AllToAllOptions settings;
        settings.timeout = limit;
        at::Tensor target = to.data, source = from.data;
        std::vector<std::int64_t> target_rows = output_rows, source_rows = input_rows;
        return on.backend->alltoall_base(target, source, target_rows, source_rows, settings);
      },
      [to](const comm::Served&) { to.give_back(); });
}

Work Group::gather(std::vector<at::Tensor> outputs, at::Tensor input, int root, CallOptions options,
                   Where where) {
  require_rank(root, *impl_, "gather", "root");
  require_alike(outputs, input, impl_->rank == root, *impl_, "gather");
  const Flat from(input);
  const std::vector<Flat> to(outputs.begin(), outputs.end());
  return run(
      impl_, {.op = "gather", .tensor = &input, .root = root}, options, where,
      [from, to, root](const comm::Served& on, auto limit) {
        c10d::GatherOptions settings;
        settings.rootRank = root;
        settings.timeout = limit;
        std::vector<std::vector<at::Tensor>> targets(to.empty() ? 0 : 1);
        for (const Flat& flat : to) targets[0].push_back(flat.data);
        std::vector<at::Tensor> sources{from.data};
        return on.backend->gather(targets, sources, settings);
      },
      [to](const comm::Served&) {
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
      impl_, {.op = "scatter", .tensor = &output, .root = root}, options, where,
      [from, to, root](const comm::Served& on, auto limit) {
        c10d::ScatterOptions settings;
        settings.rootRank = root;
        settings.timeout = limit;
        std::vector<std::vector<at::Tensor>> sources(from.empty() ? 0 : 1);
        for (const Flat& flat : from) sources[0].push_back(flat.data);
        std::vector<at::Tensor> targets{to.data};
        return on.backend->scatter(targets, sources, settings);
      },
      [to](const comm::Served&) { to.give_back(); });
}

Work Group::send(at::Tensor tensor, int to, int tag, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, "send");
  require_rank(to, *impl_, "send", "the receiver");
  require(to != impl_->rank, *impl_, "send", "the receiver is this rank itself",
          "copy the tensor instead");
  const Flat flat(tensor);
  return run_point_to_point(
      impl_, {.op = "send", .tensor = &tensor, .root = to, .of_all = false}, options, where,
      [flat, to, tag](const comm::Served& on, auto) {
        std::vector<at::Tensor> tensors{flat.data};
        return on.backend->send(tensors, to, tag);
      },
      [flat](const comm::Served&) {});
}

Work Group::recv(at::Tensor tensor, int from, int tag, CallOptions options, Where where) {
  require_tensor(tensor, *impl_, "recv");
  require_rank(from, *impl_, "recv", "the sender");
  require(from != impl_->rank, *impl_, "recv", "the sender is this rank itself",
          "copy the tensor instead");
  const Flat flat(tensor);
  return run_point_to_point(
      impl_, {.op = "recv", .tensor = &tensor, .root = from, .of_all = false}, options, where,
      [flat, from, tag](const comm::Served& on, auto) {
        std::vector<at::Tensor> tensors{flat.data};
        return on.backend->recv(tensors, from, tag);
      },
      [flat](const comm::Served&) { flat.give_back(); });
}

void Group::barrier(CallOptions options, Where where) {
  const Impl::Call call = impl_->begin({.op = "barrier"}, options, where);
  if (impl_->size == 1) return;
  try {
    impl_->progress.run([&] {
      impl_->agree(call);
      if (impl_->backends->entry(call.device).checks_itself) impl_->turns->take();
    });
    impl_->end(call, true);
  } catch (...) {
    impl_->end(call, false);
    std::rethrow_exception(impl_->translate(std::current_exception(), call));
  }
}

std::vector<std::string> Group::all_gather_text(const std::string& mine, Where where) {
  const Impl::Call call = impl_->begin({.op = "all_gather_text"}, {}, where);
  if (impl_->size == 1) return {mine};
  try {
    auto texts = impl_->exchange.all_gather(mine, call.deadline.remaining());
    impl_->end(call, true);
    return texts;
  } catch (...) {
    impl_->end(call, false);
    std::rethrow_exception(impl_->translate(std::current_exception(), call));
  }
}

}  // namespace lockstep
