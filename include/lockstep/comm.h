#pragma once
/// Who am I, who are the others, and collectives among us.
///
///     lockstep::Group world = lockstep::init_process_group();   // from the launcher's environment
///     at::Tensor sum = torch::ones({4});
///     world.all_reduce(sum);                                     // every element is now
///     world.size()
///
/// "Collective." below: every rank of the group calls it, in the same order. "Local.": no other
/// rank is involved. One group may be used by one thread at a time; different groups are
/// independent. Errors (lockstep/error.h): UsageError for a wrong call, MismatchError when ranks
/// disagree, TimeoutError when the deadline passes, PeerLost when another rank is gone.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace lockstep {

/// Element-wise reductions. kAvg is the sum divided by the group's size; kBitAnd, kBitOr and
/// kBitXor take integers and bool. Integer sums wrap around.
enum class ReduceOp { kSum, kAvg, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor };

/// How one call is made.
struct CallOptions {
  /// True: return at once; tensors are in use, and results not there, until `Work::wait()` returns.
  bool async_op = false;
  /// Overrides the group's limit for this call.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// What the call is for, such as "bucket 3": compared across the ranks, and told by errors.
  std::string_view tag = {};
};

/// A collective under way (or done, for calls without async_op). Copies refer to the same one.
class Work {
 public:
  /// Local. Returns when the result is there; throws what went wrong, again at every call.
  void wait();
  /// Local. True when `wait()` would not block.
  bool is_completed() const;

  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// A set of ranks that communicate. A value: copies are the same group. A group of one works and
/// costs nothing.
class Group {
 public:
  int rank() const;
  int size() const;
  const std::string& name() const;
  /// "shm", "gloo", "solo" (a group of one), "cpu:shm,cuda:nccl", ...
  const std::string& backend() const;
  std::chrono::milliseconds timeout() const;
  /// The ranks of this group's members in the world, by rank in this group.
  const std::vector<int>& world_ranks() const;

  /// Local. A tensor in memory from which this group's collectives need not copy: shared with the
  /// other ranks of the host where the backend can read it there ("shm"), else ordinary. Its
  /// content is undefined. InternalError where the shared memory has no room, naming the bytes.
  at::Tensor empty(at::IntArrayRef sizes, at::TensorOptions options = {}) const;

  using Where = SourceLocation;

  /// Collective. Reduces `tensor` over all ranks, in place.
  Work all_reduce(at::Tensor tensor, ReduceOp op = ReduceOp::kSum, CallOptions = {},
                  Where = Where::current());

  /// Collective. Copies root's `tensor` into everyone's.
  Work broadcast(at::Tensor tensor, int root = 0, CallOptions = {}, Where = Where::current());

  /// Collective. Like all_reduce, but only root's `tensor` receives the result; the others' keep
  /// their values.
  Work reduce(at::Tensor tensor, int root = 0, ReduceOp op = ReduceOp::kSum, CallOptions = {},
              Where = Where::current());

  /// Collective. `output` holds size() times the elements of `input`: rank r's input at [r * n, (r
  /// + 1) * n).
  Work all_gather(at::Tensor output, at::Tensor input, CallOptions = {}, Where = Where::current());

  /// Collective. `input` holds size() times the elements of `output`; rank r receives the reduced
  /// part r.
  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op = ReduceOp::kSum,
                      CallOptions = {}, Where = Where::current());

  /// Collective. Part r of `input` goes to rank r; part r of `output` comes from rank r. Parts are
  /// rows of dimension 0: equal ones when the lists are empty, else as many as the lists say.
  Work all_to_all(at::Tensor output, at::Tensor input, std::vector<std::int64_t> output_rows = {},
                  std::vector<std::int64_t> input_rows = {}, CallOptions = {},
                  Where = Where::current());

  /// Collective. Root's `outputs` (size() tensors like `input`) receive every rank's input; others
  /// pass {}.
  Work gather(std::vector<at::Tensor> outputs, at::Tensor input, int root = 0, CallOptions = {},
              Where = Where::current());

  /// Collective. Rank r's `output` receives root's `inputs[r]`; others pass {}.
  Work scatter(at::Tensor output, std::vector<at::Tensor> inputs, int root = 0, CallOptions = {},
               Where = Where::current());

  /// One sends, the other receives, with equal `tag`, dtype and number of elements.
  Work send(at::Tensor tensor, int to, int tag = 0, CallOptions = {}, Where = Where::current());
  Work recv(at::Tensor tensor, int from, int tag = 0, CallOptions = {}, Where = Where::current());

  /// Collective. Returns when every rank has called it; at the time limit names the ranks that have
  /// not.
  void barrier(CallOptions = {}, Where = Where::current());

  /// Collective. Every rank's text, by rank. For set-up and checks: it goes through the store, not
  /// the backend.
  std::vector<std::string> all_gather_text(const std::string& mine, Where = Where::current());

  /// Collective over this group, non-members too. The sub-group of `ranks` (of this group, any
  /// order but the same on every rank); nothing on ranks that are not in it. Backend and timeout
  /// are this group's unless given.
  std::optional<Group> new_group(const std::vector<int>& ranks, const std::string& backend = "",
                                 std::optional<std::chrono::milliseconds> timeout = std::nullopt,
                                 Where = Where::current());

  /// The c10d objects below, for code written against them. Local.
  const c10::intrusive_ptr<c10d::Backend>& c10d_backend() const;
  const c10::intrusive_ptr<c10d::Store>& c10d_store() const;

  class Impl;
  explicit Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// What `init_process_group` needs. The defaults take everything from the environment that a
/// launcher made: lockstep run, torchrun, mpirun, srun or Kubernetes; without one it is a world of
/// one.
struct InitOptions {
  /// "auto", a backend's name ("shm", "hierarchical", "gloo", "mpi", "nccl"), or one for each
  /// device
  /// ("cpu:shm,cuda:nccl"). Auto: the fastest for the CPU, and nccl for CUDA tensors.
  std::string backend = "auto";
  /// "env://", "tcp://host:port" (rank 0 listens there), or "file:///shared/path" (a file that must
  /// not exist).
  std::string init_method = "env://";
  /// Needed by tcp:// and file:// where no launcher gives them; they win over the environment.
  std::optional<int> world_size = std::nullopt;
  std::optional<int> rank = std::nullopt;
  std::string group_name = "world";
  /// Limit of every collective and of the meeting itself. Long, because a slow rank is not an
  /// error; a dead one is noticed at once whatever this says.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Limit of the meeting alone.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
};

/// Collective. Meets the other ranks and forms the world, which `world()` then returns in this
/// process. Throws RendezvousError (who is missing, what answered instead, which settings disagree)
/// or UsageError.
Group init_process_group(InitOptions options = {});

/// Collective. The same without making it the process's `world()`: several worlds can live in one
/// process, one a thread. It is left when the last copy of the group is destroyed.
Group join_group(InitOptions options = {});

/// Collective. Leaves the world; a process that ends without it is noticed by the others as lost.
void destroy_process_group();

/// Local. The process's world: throws UsageError before `init_process_group`.
Group world();
bool is_initialized();

/// Where this process runs, as its launcher says. Local; needs no initialisation.
struct Place {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int node_rank = 0;
  int nodes = 1;
  /// Who said so, such as "lockstep run", "torchrun", "Open MPI", "srun" or "alone".
  std::string launcher = "alone";
};
Place place();

}  // namespace lockstep
