#include "comm/backends/shm/shm.h"

#include <algorithm>

#include "base/concat.h"
#include "comm/backends/shm/collectives.h"
#include "comm/dtype_names.h"
#include "host/mailboxes.h"
#include "host/recorder.h"
#include "lockstep/error.h"

namespace lockstep::comm::shm {
namespace {

using base::concat;
using std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Pending = c10::intrusive_ptr<c10d::Work>;

class DoneWork : public c10d::Work {
 public:
  DoneWork(c10d::OpType op, Tensors result) : c10d::Work(0, op), result_(std::move(result)) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future_->markCompleted(c10::IValue(result_));
    finish();
  }
  bool wait(milliseconds) override { return true; }
  Tensors result() override { return result_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  Tensors result_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// A receive that was asked for; the message is looked for when it is waited for.
class ReceiveWork : public c10d::Work {
 public:
  ReceiveWork(std::shared_ptr<host::Mailboxes> mailboxes, host::Mailboxes::Receipt receipt,
              at::Tensor tensor, milliseconds limit)
      : c10d::Work(0, c10d::OpType::RECV),
        mailboxes_(std::move(mailboxes)),
        receipt_(receipt),
        tensor_(std::move(tensor)),
        limit_(limit) {}

  bool wait(milliseconds timeout) override {
    if (done_) return true;
    mailboxes_->receive(receipt_, tensor_.data_ptr(),
                        base::Deadline::in(timeout == kNoTimeout ? limit_ : timeout));
    done_ = true;
    finish();
    return true;
  }
  bool isCompleted() override { return done_ || mailboxes_->is_there(receipt_); }
  int sourceRank() const override { return receipt_.expected.peer; }

 private:
  std::shared_ptr<host::Mailboxes> mailboxes_;
  host::Mailboxes::Receipt receipt_;
  at::Tensor tensor_;
  milliseconds limit_;
  bool done_ = false;
};

Dtype dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBool:
      return Dtype::kBool;
    case at::kByte:
      return Dtype::kUint8;
    case at::kUInt16:
      return Dtype::kUint16;
    case at::kUInt32:
      return Dtype::kUint32;
    case at::kUInt64:
      return Dtype::kUint64;
    case at::kChar:
      return Dtype::kInt8;
    case at::kShort:
      return Dtype::kInt16;
    case at::kInt:
      return Dtype::kInt32;
    case at::kLong:
      return Dtype::kInt64;
    case at::kHalf:
      return Dtype::kFloat16;
    case at::kBFloat16:
      return Dtype::kBfloat16;
    case at::kFloat:
      return Dtype::kFloat32;
    case at::kDouble:
      return Dtype::kFloat64;
    default:
      throw UsageError(concat("shm does not reduce ", dtype_name(tensor.scalar_type())),
                       "convert the tensor to a dtype that has arithmetic");
  }
}

Op op_of(const c10d::ReduceOp& op, Dtype dtype) {
  const Op found = [&] {
    switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
      case c10d::ReduceOp::SUM:
        return Op::kSum;
      case c10d::ReduceOp::AVG:
        return Op::kAvg;
      case c10d::ReduceOp::PRODUCT:
        return Op::kProduct;
      case c10d::ReduceOp::MIN:
        return Op::kMin;
      case c10d::ReduceOp::MAX:
        return Op::kMax;
      case c10d::ReduceOp::BAND:
        return Op::kBitAnd;
      case c10d::ReduceOp::BOR:
        return Op::kBitOr;
      case c10d::ReduceOp::BXOR:
        return Op::kBitXor;
      default:
        throw UsageError("shm does not know this ReduceOp");
    }
  }();
  if (find_kernel(dtype, found) == nullptr)
    throw UsageError("this operation has no meaning for this dtype",
                     "bitwise operations take integers and bool, averages numbers");
  return found;
}

/// The tensor whose bytes are moved: dense, on the CPU, and of real numbers.
at::Tensor plain(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.is_contiguous())
    throw UsageError(concat("shm takes contiguous CPU tensors; this one is on ", tensor.device()),
                     "use nccl for CUDA tensors");
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

class Shm : public c10d::Backend {
 public:
  explicit Shm(const BackendContext& context)
      : c10d::Backend(context.rank, context.size),
        turns_(context.turns),
        collectives_(turns_),
        mailboxes_(std::make_shared<host::Mailboxes>(turns_, context.arena)),
        limit_(context.timeout) {}

  const std::string getBackendName() const override { return "shm"; }
  void abort() override { turns_->rounds().abort(); }

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = plain(tensors[0]);
    const Dtype dtype = dtype_of(tensor);
    const Op op = op_of(options.reduceOp, dtype);
    enter("all_reduce", tensor, options.timeout, static_cast<int>(op));
    collectives_.all_reduce(tensor.data_ptr(), count(tensor), dtype, op);
    return done(c10d::OpType::ALLREDUCE, tensors);
  }

  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::Tensor tensor = plain(tensors[0]);
    const Dtype dtype = dtype_of(tensor);
    const Op op = op_of(options.reduceOp, dtype);
    const int root = static_cast<int>(options.rootRank);
    enter("reduce", tensor, options.timeout, static_cast<int>(op), root);
    collectives_.reduce(tensor.data_ptr(), count(tensor), dtype, op, root);
    return done(c10d::OpType::REDUCE, tensors);
  }

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = plain(tensors[0]);
    const int root = static_cast<int>(options.rootRank);
    enter("broadcast", tensor, options.timeout, 0, root);
    collectives_.broadcast(tensor.data_ptr(), tensor.nbytes(), root);
    return done(c10d::OpType::BROADCAST, tensors);
  }

  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    const at::Tensor from = plain(input), to = plain(output);
    enter("all_gather", from, options.timeout);
    collectives_.all_gather(to.data_ptr(), from.data_ptr(), from.nbytes());
    return done(c10d::OpType::_ALLGATHER_BASE, {output});
  }

  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    const at::Tensor from = plain(inputs[0]);
    enter("all_gather", from, options.timeout);
    const at::Tensor whole = at::empty({getSize(), from.numel()}, from.options());
    collectives_.all_gather(whole.data_ptr(), from.data_ptr(), from.nbytes());
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor& target = outputs[0][static_cast<std::size_t>(rank)];
      target.copy_(target.is_complex()
                       ? at::view_as_complex(whole[rank].view(from.sizes())).view(target.sizes())
                       : whole[rank].view(target.sizes()));
    }
    return done(c10d::OpType::ALLGATHER, outputs[0]);
  }

  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const at::Tensor from = plain(input), to = plain(output);
    const Dtype dtype = dtype_of(from);
    const Op op = op_of(options.reduceOp, dtype);
    enter("reduce_scatter", from, options.timeout, static_cast<int>(op));
    collectives_.reduce_scatter(to.data_ptr(), from.data_ptr(), count(to), dtype, op);
    return done(c10d::OpType::_REDUCE_SCATTER_BASE, {output});
  }

  Pending alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_rows,
                        Splits& input_rows, const c10d::AllToAllOptions& options) override {
    const at::Tensor from = plain(input), to = plain(output);
    enter("all_to_all", from, options.timeout, 0, -1, /*any_shape=*/true);
    collectives_.all_to_all(to.data_ptr(), from.data_ptr(), part_bytes(to, output_rows),
                            part_bytes(from, input_rows));
    return done(c10d::OpType::ALLTOALL_BASE, {output});
  }

  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const at::Tensor from = plain(inputs[0]);
    const int root = static_cast<int>(options.rootRank);
    std::vector<void*> targets;
    if (getRank() == root)
      for (const at::Tensor& tensor : outputs[0]) targets.push_back(plain(tensor).data_ptr());
    enter("gather", from, options.timeout, 0, root);
    collectives_.gather(targets, from.data_ptr(), from.nbytes(), root);
    return done(c10d::OpType::GATHER, getRank() == root ? outputs[0] : Tensors{});
  }

  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const at::Tensor to = plain(outputs[0]);
    const int root = static_cast<int>(options.rootRank);
    std::vector<const void*> sources;
    if (getRank() == root)
      for (const at::Tensor& tensor : inputs[0]) sources.push_back(plain(tensor).data_ptr());
    enter("scatter", to, options.timeout, 0, root);
    collectives_.scatter(to.data_ptr(), sources, to.nbytes(), root);
    return done(c10d::OpType::SCATTER, outputs);
  }

  Pending barrier(const c10d::BarrierOptions& options) override {
    enter("barrier", {}, options.timeout);
    collectives_.barrier();
    return done(c10d::OpType::BARRIER, {});
  }

  Pending send(Tensors& tensors, int to, int tag) override {
    const at::Tensor tensor = plain(tensors[0]);
    mailboxes_->send({to, tag, kind_of(tensor), tensor.nbytes()}, tensor.data_ptr());
    return done(c10d::OpType::SEND, {});
  }

  Pending recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor tensor = plain(tensors[0]);
    return c10::make_intrusive<ReceiveWork>(
        mailboxes_, mailboxes_->expect({from, tag, kind_of(tensor), tensor.nbytes()}), tensor,
        limit_);
  }

 private:
  static std::size_t count(const at::Tensor& tensor) {
    return static_cast<std::size_t>(tensor.numel());
  }
  static std::uint64_t kind_of(const at::Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.scalar_type());
  }
  static Pending done(c10d::OpType op, Tensors result) {
    return c10::make_intrusive<DoneWork>(op, std::move(result));
  }

  /// Bytes of each rank's part: rows of dimension 0, equal parts without a list.
  std::vector<std::size_t> part_bytes(const at::Tensor& tensor, const Splits& rows) const {
    const auto ranks = static_cast<std::size_t>(getSize());
    if (rows.empty()) return std::vector<std::size_t>(ranks, tensor.nbytes() / ranks);
    const std::size_t row =
        tensor.size(0) == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(tensor.size(0));
    std::vector<std::size_t> bytes;
    for (const std::int64_t count : rows) bytes.push_back(static_cast<std::size_t>(count) * row);
    return bytes;
  }

  /// The next turns belong to this call. A Group has said so already; c10d's own users have not.
  void enter(const char* op, const at::Tensor& tensor, milliseconds limit, int reduce_op = 0,
             int root = -1, bool any_shape = false) {
    if (turns_->claim()) return;
    host::CallRecord record;
    record.sequence = ++sequence_;
    host::set_text(record.op, op);
    record.root = root;
    host::set_text(record.reduce_op, std::to_string(reduce_op));
    if (tensor.defined()) {
      host::set_text(record.dtype, dtype_name(tensor.scalar_type()));
      if (!any_shape) host::set_dims(record, tensor.sizes());
    }
    turns_->begin(record.digest(), base::Deadline::in(limit == c10d::kUnsetTimeout ? limit_ : limit));
    turns_->claim();
  }

  std::shared_ptr<host::Turns> turns_;
  Collectives collectives_;
  std::shared_ptr<host::Mailboxes> mailboxes_;
  milliseconds limit_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::string why_not(const BackendContext& context) {
  if (!context.one_host) return "the group's ranks are on different hosts";
  return context.turns ? "" : concat("there is no shared memory: ", context.no_memory);
}

c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context) {
  return c10::make_intrusive<Shm>(context);
}

}  // namespace lockstep::comm::shm
