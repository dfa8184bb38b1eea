#pragma once
#include "comm/registry.h"

namespace lockstep::comm::nccl {

/// c10d's NCCL: CUDA tensors, one GPU a rank. A rank's GPU is its local rank among those that
/// CUDA_VISIBLE_DEVICES leaves it, and becomes the calling thread's current device. `create` is
/// collective: ranks that would share a GPU are refused on every rank, before NCCL is touched.
std::string why_not(const BackendContext& context);
c10::intrusive_ptr<c10d::Backend> create(const BackendContext& context);

}  // namespace lockstep::comm::nccl
