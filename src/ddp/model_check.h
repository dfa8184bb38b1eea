#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "lockstep/comm.h"

namespace lockstep::ddp {

/// A parameter or buffer under its name in the module.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Collective. Compares kind, name, dtype, shape and requires_grad of all tensors over the ranks,
/// in order. Throws MismatchError on every rank, naming the first that differs from rank 0's, with
/// both sides.
void check_same_model(Group& group, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& buffers, const std::string& settings);

/// Collective. Copies root's tensors into everyone's, many small ones in one transfer.
void broadcast_tensors(Group& group, const std::vector<at::Tensor>& tensors, int root);

}  // namespace lockstep::ddp
