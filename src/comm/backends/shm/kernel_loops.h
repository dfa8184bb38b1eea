// The loops of the kernels, included once for each kind of processor by a file that is compiled for
// it, into the namespace LOCKSTEP_KERNELS. They are plain and left to the compiler's vectoriser.
// Nothing of the standard library that has a body may be used here: the linker could then take that
// file's copy of it for the whole program, with instructions that not every processor has.
#include "comm/backends/shm/kernels.h"

#if defined(__clang__)
#define LOCKSTEP_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_VECTORIZE _Pragma("GCC ivdep")
#endif

namespace lockstep::comm::shm::LOCKSTEP_KERNELS {
namespace {

// Elements that are combined while they lie in the first cache.
constexpr std::size_t kBlock = 1024;

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

/// How a dtype is stored, and in what it is computed.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

struct Bool : Plain<std::uint8_t> {
  static std::uint8_t load(std::uint8_t value) { return value != 0; }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(std::uint16_t value) { return float_of(std::uint32_t{value} << 16); }
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
};

/// Without branches, so that it vectorises. The exponent is moved by multiplication, which lets the
/// hardware deal with subnormal numbers (after F. Giesen, "Float to half done quic", 2012).
struct Float16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(std::uint16_t value) {
    const std::uint32_t sign = std::uint32_t{value} >> 15 << 31;
    const std::uint32_t rest = value & 0x7fffu;
    const std::uint32_t finite = bits_of(float_of(rest << 13) * 0x1p112f);
    const std::uint32_t infinite_or_nan = rest << 13 | 0x7f800000;
    return float_of(sign | (rest >= 0x7c00 ? infinite_or_nan : finite));
  }
  static std::uint16_t store(float value) {
    const std::uint32_t bits = bits_of(value), rest = bits & 0x7fffffff;
    const std::uint32_t odd = rest >> 13 & 1;
    const std::uint32_t normal = (rest - (112u << 23) + 0xfff + odd) >> 13;
    // Adding 1/2 shifts a subnormal's bits to the end of the significand, rounded.
    const std::uint32_t subnormal = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
    std::uint32_t half = rest < (113u << 23) ? subnormal : normal;
    half = rest >= (143u << 23) ? 0x7c00 : half;
    half = rest > 0x7f800000 ? 0x7e00 : half;
    return static_cast<std::uint16_t>(bits >> 31 << 15 | half);
  }
};

/// Unsigned and at least as wide as int: wraps around.
template <class T>
struct WrapOf {
  using Type = std::uint32_t;
};
template <>
struct WrapOf<std::int64_t> {
  using Type = std::uint64_t;
};
template <>
struct WrapOf<std::uint64_t> {
  using Type = std::uint64_t;
};
template <>
struct WrapOf<float> {
  using Type = float;
};
template <>
struct WrapOf<double> {
  using Type = double;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    using Wrap = typename WrapOf<T>::Type;
    return static_cast<T>(static_cast<Wrap>(a) + static_cast<Wrap>(b));
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    using Wrap = typename WrapOf<T>::Type;
    return static_cast<T>(static_cast<Wrap>(a) * static_cast<Wrap>(b));
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;  // a NaN in `a` stays: no comparison with it holds
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return b > a || b != b ? b : a;
  }
};
struct BitAnd {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class Type, class Combine, bool kAverage>
struct Reduction {
  using Stored = typename Type::Stored;
  using Computed = typename Type::Computed;

  static Computed finish(Computed value, Computed divisor) {
    if constexpr (kAverage) return static_cast<Computed>(value / divisor);
    return value;
  }

  static void run(const void* const* inputs, int input_count, void* const* outputs,
                  int output_count, std::size_t count) {
    const auto divisor = static_cast<Computed>(input_count);
    if (input_count == 2 && output_count == 2) {
      pair(static_cast<const Stored*>(inputs[0]), static_cast<const Stored*>(inputs[1]),
           static_cast<Stored*>(outputs[0]), static_cast<Stored*>(outputs[1]), count, divisor);
      return;
    }
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t length = count - begin < kBlock ? count - begin : kBlock;
      block(inputs, input_count, outputs, output_count, begin, length, divisor);
    }
  }

  /// Two ranks, the commonest case: no pass more than the data need.
  static void pair(const Stored* a, const Stored* b, Stored* x, Stored* y, std::size_t count,
                   Computed divisor) {
    LOCKSTEP_VECTORIZE
    for (std::size_t i = 0; i < count; ++i) {
      const Computed sum = Combine::apply(Type::load(a[i]), Type::load(b[i]));
      const Stored result = Type::store(finish(sum, divisor));
      x[i] = result;
      y[i] = result;
    }
  }

  static void block(const void* const* inputs, int input_count, void* const* outputs,
                    int output_count, std::size_t begin, std::size_t length, Computed divisor) {
    Computed sum[kBlock];
    const Stored* const first = static_cast<const Stored*>(inputs[0]) + begin;
    LOCKSTEP_VECTORIZE
    for (std::size_t i = 0; i < length; ++i) sum[i] = Type::load(first[i]);
    for (int input = 1; input < input_count; ++input) {
      const Stored* const next = static_cast<const Stored*>(inputs[input]) + begin;
      LOCKSTEP_VECTORIZE
      for (std::size_t i = 0; i < length; ++i) sum[i] = Combine::apply(sum[i], Type::load(next[i]));
    }
    for (int output = 0; output < output_count; ++output) {
      Stored* const target = static_cast<Stored*>(outputs[output]) + begin;
      LOCKSTEP_VECTORIZE
      for (std::size_t i = 0; i < length; ++i) target[i] = Type::store(finish(sum[i], divisor));
    }
  }
};

template <class Type>
Kernel arithmetic(Op op) {
  switch (op) {
    case Op::kSum:
      return Reduction<Type, Sum, false>::run;
    case Op::kAvg:
      return Reduction<Type, Sum, true>::run;
    case Op::kProduct:
      return Reduction<Type, Product, false>::run;
    case Op::kMin:
      return Reduction<Type, Min, false>::run;
    case Op::kMax:
      return Reduction<Type, Max, false>::run;
    default:
      return nullptr;
  }
}

template <class Type>
Kernel integral(Op op) {
  switch (op) {
    case Op::kBitAnd:
      return Reduction<Type, BitAnd, false>::run;
    case Op::kBitOr:
      return Reduction<Type, BitOr, false>::run;
    case Op::kBitXor:
      return Reduction<Type, BitXor, false>::run;
    default:
      return arithmetic<Type>(op);
  }
}

Kernel logical(Op op) {
  switch (op) {
    case Op::kSum:
    case Op::kMax:
    case Op::kBitOr:
      return Reduction<Bool, BitOr, false>::run;
    case Op::kProduct:
    case Op::kMin:
    case Op::kBitAnd:
      return Reduction<Bool, BitAnd, false>::run;
    case Op::kBitXor:
      return Reduction<Bool, BitXor, false>::run;
    default:
      return nullptr;
  }
}

}  // namespace

Kernel find_kernel(Dtype dtype, Op op) {
  switch (dtype) {
    case Dtype::kBool:
      return logical(op);
    case Dtype::kUint8:
      return integral<Plain<std::uint8_t>>(op);
    case Dtype::kUint16:
      return integral<Plain<std::uint16_t>>(op);
    case Dtype::kUint32:
      return integral<Plain<std::uint32_t>>(op);
    case Dtype::kUint64:
      return integral<Plain<std::uint64_t>>(op);
    case Dtype::kInt8:
      return integral<Plain<std::int8_t>>(op);
    case Dtype::kInt16:
      return integral<Plain<std::int16_t>>(op);
    case Dtype::kInt32:
      return integral<Plain<std::int32_t>>(op);
    case Dtype::kInt64:
      return integral<Plain<std::int64_t>>(op);
    case Dtype::kFloat16:
      return arithmetic<Float16>(op);
    case Dtype::kBfloat16:
      return arithmetic<Bfloat16>(op);
    case Dtype::kFloat32:
      return arithmetic<Plain<float>>(op);
    case Dtype::kFloat64:
      return arithmetic<Plain<double>>(op);
  }
  return nullptr;
}

}  // namespace lockstep::comm::shm::LOCKSTEP_KERNELS
