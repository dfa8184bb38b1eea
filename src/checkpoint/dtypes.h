#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// A dtype and what the file formats call it.
struct Dtype {
  at::ScalarType type;
  const char* name;           ///< as in torch.<name>
  const char* storage_class;  ///< as in torch.<storage_class>; null where Python gave it none
  const char* safetensors;    ///< null where that format has none
};

/// Every dtype that a checkpoint can hold.
std::span<const Dtype> dtypes();

/// Null when there is none.
const Dtype* find_dtype(at::ScalarType type);
const Dtype* find_dtype_named(std::string_view name);
const Dtype* find_storage_class(std::string_view name);
const Dtype* find_safetensors_dtype(std::string_view name);

/// "float32[10, 784]", for messages.
std::string describe(const at::Tensor& tensor);

}  // namespace lockstep::checkpoint
