#include "comm/backends/solo/solo.h"

namespace lockstep::comm::solo {
namespace {

class DoneWork : public c10d::Work {
 public:
  explicit DoneWork(c10d::OpType op) : c10d::Work(0, op) { finish(); }
  bool wait(std::chrono::milliseconds) override { return true; }
};

c10::intrusive_ptr<c10d::Work> done(c10d::OpType op) { return c10::make_intrusive<DoneWork>(op); }

class Solo : public c10d::Backend {
  using Tensors = std::vector<at::Tensor>;
  using Splits = std::vector<int64_t>;
  using Pending = c10::intrusive_ptr<c10d::Work>;

 public:
  Solo() : c10d::Backend(0, 1) {}

  const std::string getBackendName() const override { return "solo"; }
  void abort() override {}

  Pending allreduce(Tensors&, const c10d::AllreduceOptions&) override {
    return done(c10d::OpType::ALLREDUCE);
  }
  Pending broadcast(Tensors&, const c10d::BroadcastOptions&) override {
    return done(c10d::OpType::BROADCAST);
  }
  Pending reduce(Tensors&, const c10d::ReduceOptions&) override {
    return done(c10d::OpType::REDUCE);
  }
  Pending barrier(const c10d::BarrierOptions&) override { return done(c10d::OpType::BARRIER); }

  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    output.view_as(input).copy_(input);
    return done(c10d::OpType::_ALLGATHER_BASE);
  }
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions&) override {
    output.copy_(input.view_as(output));
    return done(c10d::OpType::_REDUCE_SCATTER_BASE);
  }
  Pending alltoall_base(at::Tensor& output, at::Tensor& input, Splits&, Splits&,
                        const c10d::AllToAllOptions&) override {
    output.copy_(input);
    return done(c10d::OpType::ALLTOALL_BASE);
  }
  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    outputs[0][0].copy_(inputs[0]);
    return done(c10d::OpType::ALLGATHER);
  }
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions&) override {
    outputs[0][0].copy_(inputs[0]);
    return done(c10d::OpType::GATHER);
  }
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions&) override {
    outputs[0].copy_(inputs[0][0]);
    return done(c10d::OpType::SCATTER);
  }
};

}  // namespace

std::string why_not(const BackendContext& context) {
  return context.size == 1 ? "" : "it serves groups of one rank only";
}

c10::intrusive_ptr<c10d::Backend> create(const BackendContext&) {
  return c10::make_intrusive<Solo>();
}

}  // namespace lockstep::comm::solo
