#pragma once
#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "comm/backends/mpi/module.h"

namespace lockstep::comm::mpi {

/// A tensor as MPI can reduce it. MPI knows neither 16-bit floats nor torch's bool: the floats are
/// reduced as float32 and rounded once at the end, the bools as the numbers 0 and 1.
class Reducible {
 public:
  /// Throws UsageError for what MPI cannot reduce.
  Reducible(const at::Tensor& tensor, const c10d::ReduceOp& op);

  /// What MPI reads and writes: the tensor itself, or a wider copy.
  const at::Tensor& data() const { return data_; }
  Element element() const { return element_; }
  Combine combine() const { return combine_; }

  /// An uninitialised tensor for results like `tensor`, in MPI's dtype.
  at::Tensor room_for(const at::Tensor& tensor) const;

 private:
  at::Tensor data_;
  Element element_;
  Combine combine_;
};

}  // namespace lockstep::comm::mpi
