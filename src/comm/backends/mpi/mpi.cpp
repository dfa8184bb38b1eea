#include "comm/backends/mpi/mpi.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/concat.h"
#include "comm/backends/mpi/communicator.h"
#include "comm/backends/mpi/numbers.h"
#include "comm/exchange.h"
#include "lockstep/error.h"

namespace lockstep::comm::mpi {
namespace {

using base::concat;
using Pending = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<std::int64_t>;
using std::chrono::milliseconds;

/// Tags of messages: those that a collective is made of, and then the users' own.
constexpr int kCollectiveTag = 0;
constexpr int kFirstUserTag = 1;
constexpr int kLastTag = 32766;

class DoneWork : public c10d::Work {
 public:
  explicit DoneWork(c10d::OpType op) : c10d::Work(0, op) { finish(); }
  bool wait(milliseconds) override { return true; }
};

/// A message under way.
class Message : public c10d::Work {
 public:
  Message(c10d::OpType op, std::unique_ptr<Operation> operation, milliseconds limit)
      : c10d::Work(0, op), operation_(std::move(operation)), limit_(limit) {}

  bool isCompleted() override { return operation_->done(); }
  bool wait(milliseconds limit) override {
    operation_->wait(limit > kNoTimeout ? limit : limit_);
    return true;
  }

 private:
  std::unique_ptr<Operation> operation_;
  milliseconds limit_;
};

const at::Tensor& plain(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous())
    throw UsageError("MPI takes contiguous CPU tensors only",
                     "copy the tensor to the CPU, or choose another backend");
  return tensor;
}

const at::Tensor& only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw UsageError(concat("MPI takes one tensor a call, not ", tensors.size()));
  return plain(tensors.front());
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

/// MPI's buffers may not overlap: `input`, or a copy where it shares its memory with `output`.
at::Tensor apart(const at::Tensor& input, const at::Tensor& output) {
  return input.is_alias_of(output) ? input.clone() : input;
}

class Mpi : public c10d::Backend {
 public:
  Mpi(int rank, int size, milliseconds limit, std::shared_ptr<Communicator> communicator)
      : c10d::Backend(rank, size), limit_(limit), communicator_(std::move(communicator)) {}

  const std::string getBackendName() const override { return "mpi"; }
  void abort() override { communicator_->stop(); }

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor& tensor = only(tensors);
    const Reducible sum(tensor, options.reduceOp);
    Operation operation(communicator_, "all_reduce", bytes_of(tensor), sum.data());
    operation.start(&Module::all_reduce, sum.data().data_ptr(), tensor.numel(), sum.element(),
                    sum.combine());
    operation.wait(limit(options.timeout));
    if (!sum.data().is_same(tensor)) tensor.copy_(sum.data());
    return done(c10d::OpType::ALLREDUCE);
  }

  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::Tensor& tensor = only(tensors);
    const Reducible sum(tensor, options.reduceOp);
    const int root = static_cast<int>(options.rootRank);
    Operation operation(communicator_, "reduce", bytes_of(tensor), sum.data());
    operation.start(&Module::reduce, sum.data().data_ptr(), tensor.numel(), sum.element(),
                    sum.combine(), root);
    operation.wait(limit(options.timeout));
    if (rank_ == root && !sum.data().is_same(tensor)) tensor.copy_(sum.data());
    return done(c10d::OpType::REDUCE);
  }

  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const Reducible sum(apart(plain(input), plain(output)), options.reduceOp);
    const at::Tensor result = sum.room_for(output);
    Operation operation(communicator_, "reduce_scatter", bytes_of(input),
                        Tensors{sum.data(), result});
    operation.start(&Module::reduce_scatter, sum.data().const_data_ptr(), result.data_ptr(),
                    output.numel(), sum.element(), sum.combine());
    operation.wait(limit(options.timeout));
    if (!result.is_same(output)) output.copy_(result);
    return done(c10d::OpType::_REDUCE_SCATTER_BASE);
  }

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor& tensor = only(tensors);
    Operation operation(communicator_, "broadcast", bytes_of(tensor), tensor);
    operation.start(&Module::broadcast, tensor.data_ptr(), bytes_of(tensor),
                    static_cast<int>(options.rootRank));
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::BROADCAST);
  }

  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    const at::Tensor from = apart(plain(input), plain(output));
    Operation operation(communicator_, "all_gather", bytes_of(output), Tensors{from, output});
    operation.start(&Module::all_gather, from.const_data_ptr(), output.data_ptr(), bytes_of(from));
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::_ALLGATHER_BASE);
  }

  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    at::Tensor input = only(inputs).view(-1);
    at::Tensor all = at::empty({size_, input.numel()}, input.options());
    _allgather_base(all, input, options);
    for (int rank = 0; rank < size_; ++rank) {
      const at::Tensor& output = outputs.at(0).at(static_cast<std::size_t>(rank));
      output.copy_(all[rank].view_as(output));
    }
    return done(c10d::OpType::ALLGATHER);
  }

  Pending alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_rows,
                        Splits& input_rows, const c10d::AllToAllOptions& options) override {
    const at::Tensor from = apart(plain(input), plain(output));
    const Tensors inputs = parts(from, input_rows), outputs = parts(output, output_rows);
    Operation operation(communicator_, "all_to_all", bytes_of(output), Tensors{from, output});
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_, source = (rank_ + size_ - step) % size_;
      receive_part(operation, outputs, source);
      send_part(operation, inputs, to);
    }
    const auto own = static_cast<std::size_t>(rank_);
    outputs[own].copy_(inputs[own]);
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::ALLTOALL_BASE);
  }

  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const at::Tensor& input = only(inputs);
    const int root = static_cast<int>(options.rootRank);
    const Tensors targets = rank_ == root ? outputs.at(0) : Tensors{};
    Operation operation(communicator_, "gather", bytes_of(input), std::pair(input, targets));
    if (rank_ == root) {
      for (int rank = 0; rank < size_; ++rank)
        if (rank != root) receive_part(operation, targets, rank);
      targets.at(static_cast<std::size_t>(root)).copy_(input);
    } else {
      operation.start(&Module::send, input.const_data_ptr(), bytes_of(input), root, kCollectiveTag);
    }
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::GATHER);
  }

  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const at::Tensor& output = only(outputs);
    const int root = static_cast<int>(options.rootRank);
    const Tensors sources = rank_ == root ? inputs.at(0) : Tensors{};
    Operation operation(communicator_, "scatter", bytes_of(output), std::pair(output, sources));
    if (rank_ == root) {
      for (int rank = 0; rank < size_; ++rank)
        if (rank != root) send_part(operation, sources, rank);
      output.copy_(sources.at(static_cast<std::size_t>(root)));
    } else {
      operation.start(&Module::receive, output.data_ptr(), bytes_of(output), root, kCollectiveTag);
    }
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::SCATTER);
  }

  Pending barrier(const c10d::BarrierOptions& options) override {
    Operation operation(communicator_, "barrier", 0, {});
    operation.start(&Module::barrier);
    operation.wait(limit(options.timeout));
    return done(c10d::OpType::BARRIER);
  }

  Pending send(Tensors& tensors, int to, int tag) override {
    const at::Tensor& tensor = only(tensors);
    auto operation = std::make_unique<Operation>(communicator_, "send", bytes_of(tensor), tensor);
    operation->start(&Module::send, tensor.const_data_ptr(), bytes_of(tensor), to, user_tag(tag));
    return c10::make_intrusive<Message>(c10d::OpType::SEND, std::move(operation), limit_);
  }

  Pending recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor& tensor = only(tensors);
    auto operation = std::make_unique<Operation>(communicator_, "recv", bytes_of(tensor), tensor);
    operation->start(&Module::receive, tensor.data_ptr(), bytes_of(tensor), from, user_tag(tag));
    return c10::make_intrusive<Message>(c10d::OpType::RECV, std::move(operation), limit_);
  }

 private:
  static Pending done(c10d::OpType op) { return c10::make_intrusive<DoneWork>(op); }

  milliseconds limit(milliseconds wanted) const {
    return wanted == c10d::kUnsetTimeout ? limit_ : wanted;
  }

  static int user_tag(int tag) {
    if (tag < 0 || tag > kLastTag - kFirstUserTag)
      throw UsageError(concat("the tag is ", tag),
                       concat("MPI takes tags from 0 to ", kLastTag - kFirstUserTag));
    return tag + kFirstUserTag;
  }

  /// The rows for or from each rank; equal ones when `rows` is empty.
  Tensors parts(const at::Tensor& tensor, const Splits& rows) const {
    if (tensor.numel() == 0) return Tensors(static_cast<std::size_t>(size_), tensor);
    return rows.empty() ? tensor.tensor_split(size_) : tensor.split_with_sizes(rows);
  }

  static void send_part(Operation& operation, const Tensors& parts, int to) {
    const at::Tensor& part = parts.at(static_cast<std::size_t>(to));
    operation.start(&Module::send, part.const_data_ptr(), bytes_of(part), to, kCollectiveTag);
  }

  static void receive_part(Operation& operation, const Tensors& parts, int from) {
    const at::Tensor& part = parts.at(static_cast<std::size_t>(from));
    operation.start(&Module::receive, part.data_ptr(), bytes_of(part), from, kCollectiveTag);
  }

  milliseconds limit_;
  std::shared_ptr<Communicator> communicator_;
};

/// The members' numbers in MPI_COMM_WORLD, by rank in the group. They tell each other through the
/// store: a launcher of ours inside mpirun may number them otherwise.
std::vector<int> world_ranks(const std::vector<std::string>& texts) {
  std::vector<int> ranks;
  std::set<int> sizes;
  for (const std::string& text : texts) {
    std::istringstream words(text);
    int rank = 0, size = 0;
    words >> rank >> size;
    ranks.push_back(rank);
    sizes.insert(size);
  }
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size() || sizes.size() != 1)
    throw UsageError("the members of this group are not distinct processes of one MPI job",
                     "start all of them by one mpirun, one process a rank");
  return ranks;
}

}  // namespace

std::string why_not(const BackendContext&) { return Runtime::why_not(); }

c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context) {
  // Members alone make a group's communicator, and a process may make several at a time: its
  // first member gives it a number, which with that member's own tells it apart.
  static std::atomic<int> made{0};
  Runtime& runtime = Runtime::instance();
  Exchange exchange(context.store, context.rank, context.size);
  const std::vector<std::string> texts = exchange.all_gather(
      concat(runtime.rank(), " ", runtime.size(), " ", made++), context.timeout);
  const std::string& first = texts.front();
  const long number = std::stol(first.substr(first.rfind(' ')));
  const std::vector<int> ranks = world_ranks(texts);
  const long tag = 1 + (number * runtime.size() + ranks.front()) % kLastTag;
  return c10::make_intrusive<Mpi>(context.rank, context.size, context.timeout,
                                  std::make_shared<Communicator>(ranks, static_cast<int>(tag)));
}

std::vector<std::string> gather_before_meeting(const std::string& mine, milliseconds limit) {
  return all_gather_text(mine, limit);
}

}  // namespace lockstep::comm::mpi
