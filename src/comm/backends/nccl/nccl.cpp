#include "comm/backends/nccl/nccl.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "base/concat.h"
#include "base/env.h"
#include "base/host.h"
#include "comm/exchange.h"
#include "lockstep/error.h"

namespace lockstep::comm::nccl {
namespace {

using base::concat;
using std::chrono::milliseconds;
using Pending = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

c10::intrusive_ptr<c10d::Store> part_of(const BackendContext& context, const char* name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, context.store);
}

/// Whether the communicator still stands. Shared with the works, which may outlive the group.
struct Health {
  std::atomic<bool> aborted{false};
};

/// A collective under way. NCCL's kernels end early, as if they had succeeded, when their
/// communicator is aborted: no result is taken for good before that was looked at.
class CheckedWork : public c10d::Work {
 public:
  CheckedWork(Pending nccl, std::shared_ptr<Health> health, milliseconds limit)
      : nccl_(std::move(nccl)), health_(std::move(health)), limit_(limit) {}

  bool wait(milliseconds timeout) override {
    try {
      nccl_->wait(timeout == kNoTimeout ? limit_ : timeout);
    } catch (const c10::DistBackendError& error) {
      const std::string text = error.what_without_backtrace();
      if (text.find("imeout") != std::string::npos) throw;
      throw InternalError(concat("NCCL lost a connection, or failed: ", text),
                          "NCCL_DEBUG=INFO makes NCCL tell more");
    }
    if (health_->aborted)
      throw InternalError("NCCL was aborted: the connection to a rank is closed");
    return true;
  }
  void synchronize() override { nccl_->synchronize(); }
  bool isCompleted() override { return nccl_->isCompleted(); }
  bool isSuccess() const override { return !health_->aborted && nccl_->isSuccess(); }
  Tensors result() override { return nccl_->result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return nccl_->getFuture(); }

 private:
  Pending nccl_;
  std::shared_ptr<Health> health_;
  milliseconds limit_;
};

/// ProcessGroupNCCL on one device, whose failures end calls and never the process.
class Nccl : public c10d::ProcessGroupNCCL {
  using Base = c10d::ProcessGroupNCCL;
  using Splits = std::vector<int64_t>;

 public:
  Nccl(const BackendContext& context, at::Device device)
      : Base(part_of(context, "nccl"), context.rank, context.size, options_of(context)),
        device_(device),
        limit_(context.timeout) {
    // By default c10d's watchdog ends the process. It looks at this when a work failed; there is
    // none yet.
    asyncErrorHandling_ = c10d::CleanUpOnly;
    setBoundDeviceId(device);
    eagerConnectSingleDevice(device);
  }

  /// Comes from the thread that hears of lost members, while others wait for a work.
  void abort() override {
    if (health_->aborted.exchange(true)) return;
    try {
      Base::abort();
    } catch (const std::exception&) {
      // Whoever waits for a work learns it from `health_`.
    }
  }

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return start(tensors[0], options.timeout, [&] { return Base::allreduce(tensors, options); });
  }
  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return start(tensors[0], options.timeout, [&] { return Base::broadcast(tensors, options); });
  }
  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return start(tensors[0], options.timeout, [&] { return Base::reduce(tensors, options); });
  }
  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return start(input, options.timeout,
                 [&] { return Base::_allgather_base(output, input, options); });
  }
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return start(input, options.timeout,
                 [&] { return Base::_reduce_scatter_base(output, input, options); });
  }
  Pending alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_rows,
                        Splits& input_rows, const c10d::AllToAllOptions& options) override {
    return start(input, options.timeout, [&] {
      return Base::alltoall_base(output, input, output_rows, input_rows, options);
    });
  }
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return start(inputs[0], options.timeout,
                 [&] { return Base::gather(outputs, inputs, options); });
  }
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return start(outputs[0], options.timeout,
                 [&] { return Base::scatter(outputs, inputs, options); });
  }
  Pending send(Tensors& tensors, int to, int tag) override {
    return start(tensors[0], limit_, [&] { return Base::send(tensors, to, tag); });
  }
  Pending recv(Tensors& tensors, int from, int tag) override {
    return start(tensors[0], limit_, [&] { return Base::recv(tensors, from, tag); });
  }

 private:
  static c10::intrusive_ptr<Options> options_of(const BackendContext& context) {
    auto options = Options::create();
    options->timeout = context.timeout;
    return options;
  }

  template <class Call>
  Pending start(const at::Tensor& tensor, milliseconds timeout, Call call) {
    if (tensor.device() != device_)
      throw UsageError(
          concat("the tensor is on ", tensor.device(), ", this rank's GPU is ", device_),
          concat("move it to ", device_, ", or use another backend for it"));
    const milliseconds limit = timeout == c10d::kUnsetTimeout ? limit_ : timeout;
    setTimeout(limit);  // the watchdog's, for the work that is started here
    try {
      return c10::make_intrusive<CheckedWork>(call(), health_, limit);
    } catch (const c10::TypeError& error) {
      refuse(error);
    } catch (const c10::ValueError& error) {
      refuse(error);
    }
  }

  /// NCCL has neither every dtype nor bitwise reductions.
  [[noreturn]] static void refuse(const c10::Error& error) {
    throw UsageError(error.what_without_backtrace(),
                     "convert the tensor, or use a group with another backend for this call");
  }

  const at::Device device_;
  const milliseconds limit_;
  const std::shared_ptr<Health> health_ = std::make_shared<Health>();
};

/// This rank's GPU. A launcher may show each rank one of its own: then all are number 0.
at::Device device_of(const BackendContext& context) {
  return {at::kCUDA, static_cast<c10::DeviceIndex>(context.local_rank % c10::cuda::device_count())};
}

void refuse_shared_devices(const BackendContext& context, at::Device device) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
  const std::string uuid(properties->uuid.bytes, sizeof properties->uuid.bytes);
  Exchange exchange(part_of(context, "devices"), context.rank, context.size);
  const auto devices = exchange.all_gather(
      concat(uuid, properties->name, " of host ", base::host_name()), context.timeout);
  std::map<std::string, int> taken;
  for (int rank = 0; rank < context.size; ++rank) {
    const std::string& text = devices[static_cast<std::size_t>(rank)];
    const auto [first, alone] = taken.emplace(text.substr(0, uuid.size()), rank);
    if (alone) continue;
    try {
      // Nobody goes, and takes the store along, before all have read.
      exchange.barrier(std::min<milliseconds>(context.timeout, std::chrono::seconds(2)));
    } catch (const Error&) {
      // The refusal matters more than who has heard it.
    }
    throw UsageError(concat("ranks ", first->second, " and ", rank, " would share one GPU, the ",
                            text.substr(uuid.size())),
                     "start no more ranks on a host than it has GPUs (--nproc-per-node gpu), or "
                     "give each rank its own by LOCAL_RANK or CUDA_VISIBLE_DEVICES");
  }
}

}  // namespace

std::string why_not(const BackendContext&) {
  if (c10::cuda::device_count() > 0) return "";
  const auto list = base::Env::of_process().text("CUDA_VISIBLE_DEVICES");
  return list ? concat("no GPU is visible (CUDA_VISIBLE_DEVICES='", *list, "')")
              : std::string("no GPU is visible");
}

c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context) {
  const at::Device device = device_of(context);
  refuse_shared_devices(context, device);
  c10::cuda::set_device(device.index());
  try {
    return c10::make_intrusive<Nccl>(context, device);
  } catch (const c10::DistBackendError& error) {
    throw InternalError(concat("NCCL cannot connect the ranks: ", error.what_without_backtrace()),
                        "NCCL_DEBUG=INFO makes NCCL tell more");
  }
}

}  // namespace lockstep::comm::nccl
