#pragma once
#include <cstddef>
#include <cstdint>

namespace lockstep::comm::shm {

enum class Dtype : std::uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64
};

/// An average is the sum divided by the number of inputs; of integers, rounded towards zero.
enum class Op : std::uint8_t { kSum, kAvg, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor };

/// Combines `count` elements of each of `input_count` inputs, in the order of the inputs, and
/// writes the result to every output. Outputs may be inputs, element for element.
/// float16 and bfloat16 are combined in float32 and rounded once, to nearest even. Integer sums
/// and products wrap around. Minimum and maximum of a NaN are NaN. Sums of bool are "or", products
/// "and".
using Kernel = void (*)(const void* const* inputs, int input_count, void* const* outputs,
                        int output_count, std::size_t count);

/// The fastest that this processor runs; none for a bitwise operation on floats and for averages
/// of bool. All give the same bits, except which NaN where one comes out.
Kernel find_kernel(Dtype dtype, Op op);

/// Which instructions `find_kernel` chose: "avx512", "avx2" or "baseline".
const char* kernel_instructions();

/// The same, compiled for one kind of processor each (kernel_loops.h).
namespace baseline {
Kernel find_kernel(Dtype dtype, Op op);
}
namespace avx2 {
Kernel find_kernel(Dtype dtype, Op op);
}
namespace avx512 {
Kernel find_kernel(Dtype dtype, Op op);
}

}  // namespace lockstep::comm::shm
