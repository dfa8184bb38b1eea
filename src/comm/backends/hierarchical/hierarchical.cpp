#include "comm/backends/hierarchical/hierarchical.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/concat.h"

namespace lockstep::comm::hierarchical {
namespace {

using base::concat;
using std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Pending = c10::intrusive_ptr<c10d::Work>;
using Inner = c10::intrusive_ptr<c10d::Backend>;

class DoneWork : public c10d::Work {
 public:
  explicit DoneWork(c10d::OpType op) : c10d::Work(0, op) { finish(); }
  bool wait(milliseconds) override { return true; }
};

/// Where the ranks of a group are.
struct Layout {
  explicit Layout(const BackendContext& context) : host_of(context.host_of_rank) {
    for (int rank = 0; rank < context.size; ++rank) {
      const int host = host_of[static_cast<std::size_t>(rank)];
      if (host >= static_cast<int>(ranks.size())) ranks.resize(static_cast<std::size_t>(host) + 1);
      ranks[static_cast<std::size_t>(host)].push_back(rank);
    }
    host = host_of[static_cast<std::size_t>(context.rank)];
    const auto& here = ranks[static_cast<std::size_t>(host)];
    local_rank = static_cast<int>(std::find(here.begin(), here.end(), context.rank) - here.begin());
  }

  int local_size() const { return static_cast<int>(ranks[static_cast<std::size_t>(host)].size()); }
  int hosts() const { return static_cast<int>(ranks.size()); }
  int largest() const {
    std::size_t most = 0;
    for (const auto& members : ranks) most = std::max(most, members.size());
    return static_cast<int>(most);
  }
  int local_rank_of(int rank) const {
    const auto& members = ranks[static_cast<std::size_t>(host_of[static_cast<std::size_t>(rank)])];
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }

  std::vector<int> host_of;             ///< by rank, counted from 0 within the group
  std::vector<std::vector<int>> ranks;  ///< by host; the first of each is its leader
  int host = 0;
  int local_rank = 0;
};

Inner make(const BackendContext& whole, const char* backend, const std::string& name, int rank,
           int size, bool one_host) {
  BackendContext part = whole;
  part.store = c10::make_intrusive<c10d::PrefixStore>(name, whole.store);
  part.rank = rank;
  part.size = size;
  part.one_host = one_host;
  part.address = one_host ? "" : whole.address;
  if (!one_host) part.turns = nullptr;
  return choose_backend(backend, part).create(part);
}

class Hierarchical : public c10d::Backend {
 public:
  explicit Hierarchical(const BackendContext& context)
      : c10d::Backend(context.rank, context.size),
        layout_(context),
        everyone_(make(context, "gloo", "everyone", context.rank, context.size, false)),
        inside_(make(context, "auto", concat("inside/", layout_.host), layout_.local_rank,
                     layout_.local_size(), true)) {
    if (leads()) across_ = make(context, "gloo", "across", layout_.host, layout_.hosts(), false);
  }

  const std::string getBackendName() const override { return "hierarchical"; }
  void abort() override {
    everyone_->abort();
    inside_->abort();
    if (across_) across_->abort();
  }

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    reduce_to_leader(tensors, options.reduceOp, options.timeout);
    if (leads()) {
      c10d::AllreduceOptions between = options;
      between.reduceOp = summed(options.reduceOp);
      across_->allreduce(tensors, between)->wait(options.timeout);
      average(tensors[0], options.reduceOp);
    }
    spread(tensors, options.timeout);
    return done(c10d::OpType::ALLREDUCE);
  }

  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    // What others than root hold afterwards is scratch.
    c10d::AllreduceOptions all;
    all.reduceOp = options.reduceOp;
    all.timeout = options.timeout;
    allreduce(tensors, all);
    return done(c10d::OpType::REDUCE);
  }

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const int root = static_cast<int>(options.rootRank);
    const int host = layout_.host_of[static_cast<std::size_t>(root)];
    if (layout_.host == host) spread(tensors, options.timeout, layout_.local_rank_of(root));
    if (leads()) {
      c10d::BroadcastOptions between = options;
      between.rootRank = host;
      across_->broadcast(tensors, between)->wait(options.timeout);
    }
    if (layout_.host != host) spread(tensors, options.timeout);
    return done(c10d::OpType::BROADCAST);
  }

  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    // Between the hosts travel blocks of equal size, as many parts as the largest host has ranks.
    const std::int64_t part = input.numel(), block = part * layout_.largest();
    at::Tensor whole;
    Tensors parts;
    if (leads()) {
      whole = at::empty({layout_.hosts(), block}, input.options());
      for (int rank = 0; rank < layout_.local_size(); ++rank)
        parts.push_back(whole[layout_.host].narrow(0, rank * part, part));
    }
    c10d::GatherOptions gathering;
    gathering.rootRank = 0;
    gathering.timeout = options.timeout;
    std::vector<Tensors> targets;
    if (leads()) targets.push_back(parts);
    Tensors sources{input.view(-1)};
    inside_->gather(targets, sources, gathering)->wait(options.timeout);
    if (leads()) {
      at::Tensor mine = whole[layout_.host].clone(), flat = whole.view(-1);
      across_->_allgather_base(flat, mine, options)->wait(options.timeout);
      for (int rank = 0; rank < getSize(); ++rank)
        output.view(-1)
            .narrow(0, rank * part, part)
            .copy_(whole[layout_.host_of[static_cast<std::size_t>(rank)]].narrow(
                0, layout_.local_rank_of(rank) * part, part));
    }
    Tensors result{output};
    spread(result, options.timeout);
    return done(c10d::OpType::_ALLGATHER_BASE);
  }

  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    Tensors scratch{input.clone()};
    c10d::AllreduceOptions all;
    all.reduceOp = options.reduceOp;
    all.timeout = options.timeout;
    allreduce(scratch, all);
    output.view(-1).copy_(
        scratch[0].view(-1).narrow(0, getRank() * output.numel(), output.numel()));
    return done(c10d::OpType::_REDUCE_SCATTER_BASE);
  }

  Pending barrier(const c10d::BarrierOptions& options) override {
    Tensors nothing{at::zeros({1})};
    c10d::AllreduceOptions all;
    all.timeout = options.timeout;
    allreduce(nothing, all);
    return done(c10d::OpType::BARRIER);
  }

  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return everyone_->allgather(outputs, inputs, options);
  }
  Pending alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_rows,
                        Splits& input_rows, const c10d::AllToAllOptions& options) override {
    return everyone_->alltoall_base(output, input, output_rows, input_rows, options);
  }
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return everyone_->gather(outputs, inputs, options);
  }
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return everyone_->scatter(outputs, inputs, options);
  }
  Pending send(Tensors& tensors, int to, int tag) override {
    return everyone_->send(tensors, to, tag);
  }
  Pending recv(Tensors& tensors, int from, int tag) override {
    return everyone_->recv(tensors, from, tag);
  }

 private:
  static Pending done(c10d::OpType op) { return c10::make_intrusive<DoneWork>(op); }

  bool leads() const { return layout_.local_rank == 0; }

  static c10d::ReduceOp summed(const c10d::ReduceOp& op) {
    return op == c10d::ReduceOp::AVG ? c10d::ReduceOp(c10d::ReduceOp::SUM) : op;
  }

  void average(const at::Tensor& sum, const c10d::ReduceOp& op) const {
    if (op != c10d::ReduceOp::AVG) return;
    if (at::isIntegralType(sum.scalar_type(), /*includeBool=*/false)) {
      sum.div_(getSize(), "trunc");
    } else {
      sum.div_(getSize());
    }
  }

  void reduce_to_leader(Tensors& tensors, const c10d::ReduceOp& op, milliseconds limit) {
    c10d::ReduceOptions options;
    options.reduceOp = summed(op);
    options.rootRank = 0;
    options.timeout = limit;
    inside_->reduce(tensors, options)->wait(limit);
  }

  /// From one rank of this host to all of it.
  void spread(Tensors& tensors, milliseconds limit, int local_root = 0) {
    c10d::BroadcastOptions options;
    options.rootRank = local_root;
    options.timeout = limit;
    inside_->broadcast(tensors, options)->wait(limit);
  }

  Layout layout_;
  Inner everyone_;
  Inner inside_;
  Inner across_;  ///< of the leaders alone
};

}  // namespace

std::string why_not(const BackendContext& context) {
  if (context.one_host) return "all ranks are on one host, which shm serves";
  return Layout(context).largest() > 1 ? "" : "no host has more than one rank: nothing is inside";
}

c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context) {
  return c10::make_intrusive<Hierarchical>(context);
}

}  // namespace lockstep::comm::hierarchical
