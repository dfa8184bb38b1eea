#include "comm/backends/mpi/numbers.h"

#include <torch/torch.h>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::comm::mpi {
namespace {

using base::concat;

Element element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
    case at::kByte:
      return Element::kUint8;
    case at::kChar:
      return Element::kInt8;
    case at::kUInt16:
      return Element::kUint16;
    case at::kShort:
      return Element::kInt16;
    case at::kUInt32:
      return Element::kUint32;
    case at::kInt:
      return Element::kInt32;
    case at::kUInt64:
      return Element::kUint64;
    case at::kLong:
      return Element::kInt64;
    case at::kFloat:
      return Element::kFloat;
    case at::kDouble:
      return Element::kDouble;
    default:
      throw UsageError(concat("MPI cannot reduce ", dtype), "convert the tensor");
  }
}

Combine combine_of(const c10d::ReduceOp& op, bool logical) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return logical ? Combine::kBitOr : Combine::kSum;
    case c10d::ReduceOp::PRODUCT:
      return logical ? Combine::kBitAnd : Combine::kProduct;
    case c10d::ReduceOp::MIN:
      return Combine::kMin;
    case c10d::ReduceOp::MAX:
      return Combine::kMax;
    case c10d::ReduceOp::BAND:
      return Combine::kBitAnd;
    case c10d::ReduceOp::BOR:
      return Combine::kBitOr;
    case c10d::ReduceOp::BXOR:
      return Combine::kBitXor;
    default:
      throw UsageError("MPI has no such reduction", "reduce by sum and divide afterwards");
  }
}

bool is_narrow(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

}  // namespace

Reducible::Reducible(const at::Tensor& tensor, const c10d::ReduceOp& op)
    : data_(is_narrow(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor),
      element_(element_of(data_.scalar_type())),
      combine_(combine_of(op, tensor.scalar_type() == at::kBool)) {}

at::Tensor Reducible::room_for(const at::Tensor& tensor) const {
  return tensor.scalar_type() == data_.scalar_type()
             ? tensor
             : at::empty(tensor.sizes(), tensor.options().dtype(data_.scalar_type()));
}

}  // namespace lockstep::comm::mpi
