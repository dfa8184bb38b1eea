#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint.h"

/// The C++ side of scripts/golden/checkpoint.py: the same values under the same names.
namespace lockstep::test {

/// One tensor of each dtype: the bytes 0 to 47, or 0 and 1 for bool.
StateDict every_dtype();

/// Tensors that share a storage, scalars, empty ones, parameters.
Value views();

/// A Linear and a BatchNorm1d, values counted up.
torch::nn::Sequential network();

at::Tensor gradient(at::IntArrayRef shape, int step);

using Parameters = std::vector<at::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)>;
const std::vector<std::pair<std::string, MakeOptimizer>>& optimizers();

/// Gives every parameter the gradient of that step, then steps.
void step(torch::optim::Optimizer& optimizer, int number);

/// Equal dtype, shape and bits.
bool same(const at::Tensor& left, const at::Tensor& right);

}  // namespace lockstep::test
