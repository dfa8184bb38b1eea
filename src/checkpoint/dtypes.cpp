#include "checkpoint/dtypes.h"

#include <algorithm>

#include "base/concat.h"

namespace lockstep::checkpoint {
namespace {

constexpr Dtype kDtypes[] = {
    {at::kFloat, "float32", "FloatStorage"},
    {at::kDouble, "float64", "DoubleStorage"},
    {at::kHalf, "float16", "HalfStorage"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage"},
    {at::kLong, "int64", "LongStorage"},
    {at::kInt, "int32", "IntStorage"},
    {at::kShort, "int16", "ShortStorage"},
    {at::kChar, "int8", "CharStorage"},
    {at::kByte, "uint8", "ByteStorage"},
    {at::kBool, "bool", "BoolStorage"},
    {at::kComplexFloat, "complex64", "ComplexFloatStorage"},
    {at::kComplexDouble, "complex128", "ComplexDoubleStorage"},
    {at::kComplexHalf, "complex32", nullptr},
    {at::kUInt16, "uint16", nullptr},
    {at::kUInt32, "uint32", nullptr},
    {at::kUInt64, "uint64", nullptr},
    {at::kFloat8_e5m2, "float8_e5m2", nullptr},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", nullptr},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", nullptr},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", nullptr},
    {at::kFloat8_e8m0fnu, "float8_e8m0fnu", nullptr},
    {at::kFloat4_e2m1fn_x2, "float4_e2m1fn_x2", nullptr},
};

template <class Field, class T>
const Dtype* find(Field field, const T& wanted) {
  const auto found =
      std::ranges::find_if(kDtypes, [&](const Dtype& dtype) { return field(dtype) == wanted; });
  return found == std::end(kDtypes) ? nullptr : &*found;
}

}  // namespace

std::span<const Dtype> dtypes() { return kDtypes; }

const Dtype* find_dtype(at::ScalarType type) {
  return find([](const Dtype& dtype) { return dtype.type; }, type);
}

const Dtype* find_dtype_named(std::string_view name) {
  return find([](const Dtype& dtype) { return std::string_view(dtype.name); }, name);
}

const Dtype* find_storage_class(std::string_view name) {
  return find(
      [](const Dtype& dtype) {
        return std::string_view(dtype.storage_class ? dtype.storage_class : "");
      },
      name);
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  const Dtype* const dtype = find_dtype(tensor.scalar_type());
  std::string sizes;
  for (const auto size : tensor.sizes()) sizes += base::concat(sizes.empty() ? "" : ", ", size);
  return base::concat(dtype ? dtype->name : c10::toString(tensor.scalar_type()), "[", sizes, "]");
}

}  // namespace lockstep::checkpoint
