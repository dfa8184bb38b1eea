#include "checkpoint/dtypes.h"

#include <algorithm>

#include "base/concat.h"

namespace lockstep::checkpoint {
namespace {

constexpr Dtype kDtypes[] = {
    {at::kFloat, "float32", "FloatStorage", "F32"},
    {at::kDouble, "float64", "DoubleStorage", "F64"},
    {at::kHalf, "float16", "HalfStorage", "F16"},
    {at::kBFloat16, "bfloat16", "BFloat16Storage", "BF16"},
    {at::kLong, "int64", "LongStorage", "I64"},
    {at::kInt, "int32", "IntStorage", "I32"},
    {at::kShort, "int16", "ShortStorage", "I16"},
    {at::kChar, "int8", "CharStorage", "I8"},
    {at::kByte, "uint8", "ByteStorage", "U8"},
    {at::kBool, "bool", "BoolStorage", "BOOL"},
    {at::kComplexFloat, "complex64", "ComplexFloatStorage", "C64"},
    {at::kComplexDouble, "complex128", "ComplexDoubleStorage", nullptr},
    {at::kComplexHalf, "complex32", nullptr, nullptr},
    {at::kUInt16, "uint16", nullptr, "U16"},
    {at::kUInt32, "uint32", nullptr, "U32"},
    {at::kUInt64, "uint64", nullptr, "U64"},
    {at::kFloat8_e5m2, "float8_e5m2", nullptr, "F8_E5M2"},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", nullptr, "F8_E4M3"},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", nullptr, "F8_E5M2FNUZ"},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", nullptr, "F8_E4M3FNUZ"},
    {at::kFloat8_e8m0fnu, "float8_e8m0fnu", nullptr, nullptr},
    {at::kFloat4_e2m1fn_x2, "float4_e2m1fn_x2", nullptr, nullptr},
};

const Dtype* find(const char* Dtype::*field, std::string_view wanted) {
  const auto found = std::ranges::find_if(kDtypes, [&](const Dtype& dtype) {
    return dtype.*field != nullptr && dtype.*field == wanted;
  });
  return found == std::end(kDtypes) ? nullptr : &*found;
}

}  // namespace

std::span<const Dtype> dtypes() { return kDtypes; }

const Dtype* find_dtype(at::ScalarType type) {
  const auto found = std::ranges::find(kDtypes, type, &Dtype::type);
  return found == std::end(kDtypes) ? nullptr : &*found;
}

const Dtype* find_dtype_named(std::string_view name) { return find(&Dtype::name, name); }
const Dtype* find_storage_class(std::string_view name) { return find(&Dtype::storage_class, name); }
const Dtype* find_safetensors_dtype(std::string_view name) {
  return find(&Dtype::safetensors, name);
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  const Dtype* const dtype = find_dtype(tensor.scalar_type());
  std::string sizes;
  for (const auto size : tensor.sizes()) sizes += base::concat(sizes.empty() ? "" : ", ", size);
  return base::concat(dtype ? dtype->name : c10::toString(tensor.scalar_type()), "[", sizes, "]");
}

}  // namespace lockstep::checkpoint
