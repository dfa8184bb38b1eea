#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/model_check.h"
#include "lockstep/comm.h"
#include "lockstep/ddp.h"

namespace lockstep::ddp {

/// Averages a module's gradients during backward.
///
/// Each bucket is one flat tensor: the gradients of its parameters (which `grad()` of those
/// parameters views), then one flag a parameter, 1 where this rank used it. The flags travel with
/// the gradients, so that after the all-reduce every rank knows which parameters were used
/// anywhere, without a transfer of its own.
class Reducer {
 public:
  Reducer(std::shared_ptr<torch::nn::Module> module, Group group,
          const DistributedDataParallelOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void before_forward();
  void enter_no_sync() { ++no_sync_depth_; }
  void leave_no_sync() { --no_sync_depth_; }
  const Group& group() const { return group_; }

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    at::Tensor view;  ///< of its bucket, in the parameter's shape and strides
    std::size_t bucket = 0;
    std::int64_t flag = 0;  ///< index of its flag in the bucket's flags
    bool ready = false;     ///< its gradient came in this backward
    bool used = false;      ///< its gradient came since the last synchronisation
  };

  struct Bucket {
    std::vector<std::size_t> members;
    std::string tag;  ///< "bucket 0: fc2.weight ..."
    at::Tensor flat;
    at::Tensor flags;  ///< tail of `flat`
    std::size_t missing = 0;
    bool some_unused = false;  ///< this rank wrote a 0 into the flags
    std::optional<Work> work;
  };

  void make_buckets(const DistributedDataParallelOptions& options);
  void add_hooks();

  void on_gradient(std::size_t index);
  void begin_backward();
  void end_backward();
  void place_in_bucket(Parameter& parameter);
  void launch_ready_buckets();
  void launch(Bucket& bucket, bool async_op);
  void finish_bucket(Bucket& bucket);

  std::shared_ptr<torch::nn::Module> module_;
  Group group_;
  bool broadcast_buffers_;
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<Bucket> buckets_;
  std::vector<std::function<void()>> remove_hooks_;

  int no_sync_depth_ = 0;
  int backward_id_ = -1;  ///< autograd's number of the backward under way; -1: none
  std::size_t next_bucket_ = 0;
  bool buffers_are_fresh_ = false;
};

}  // namespace lockstep::ddp
