#include "checkpoint/samples.h"

namespace lockstep::test {

StateDict every_dtype() {
  StateDict tensors;
  const auto raw = [] { return torch::arange(48, torch::kByte); };
  const std::pair<const char*, at::ScalarType> dtypes[] = {
      {"float32", at::kFloat},
      {"float64", at::kDouble},
      {"float16", at::kHalf},
      {"bfloat16", at::kBFloat16},
      {"int64", at::kLong},
      {"int32", at::kInt},
      {"int16", at::kShort},
      {"int8", at::kChar},
      {"uint8", at::kByte},
      {"bool", at::kBool},
      {"complex64", at::kComplexFloat},
      {"complex128", at::kComplexDouble},
      {"complex32", at::kComplexHalf},
      {"uint16", at::kUInt16},
      {"uint32", at::kUInt32},
      {"uint64", at::kUInt64},
      {"float8_e5m2", at::kFloat8_e5m2},
      {"float8_e4m3fn", at::kFloat8_e4m3fn},
      {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
      {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
      {"float8_e8m0fnu", at::kFloat8_e8m0fnu},
      {"float4_e2m1fn_x2", at::kFloat4_e2m1fn_x2},
  };
  for (const auto& [name, dtype] : dtypes) {
    tensors.insert(name, dtype == at::kBool ? raw().remainder(2).to(at::kBool) : raw().view(dtype));
  }
  return tensors;
}

Value views() {
  const auto base = torch::arange(24, torch::kFloat).reshape({4, 6});
  const auto pair = [] {
    return torch::complex(torch::tensor({1.f, 3.f}), torch::tensor({2.f, -4.f}));
  };
  return Value::Dict{
      {"base", base},
      {"transposed", base.t()},
      {"slice", base.slice(0, 1, 3).slice(1, 0, 6, 2)},
      {"scalar", base.index({2, 3})},
      {"row", base.index({3}).expand({2, 6})},
      {"empty", torch::zeros({0, 3})},
      {"parameter", torch::arange(3, torch::kFloat).requires_grad_()},
      {"conj", pair().conj()},
      {"neg", at::imag(pair().conj())},
  };
}

torch::nn::Sequential network() {
  torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  const torch::NoGradGuard no_grad;
  int index = 0;
  for (const auto& item : state_dict(*model)) {
    at::Tensor(item.value())
        .copy_(torch::arange(item.value().numel()).reshape(item.value().sizes()) + 10 * index++);
  }
  return model;
}

at::Tensor gradient(at::IntArrayRef shape, int step) {
  return (torch::arange(c10::multiply_integers(shape), torch::kFloat).reshape(shape) - 2 * step) /
         7;
}

const std::vector<std::pair<std::string, MakeOptimizer>>& optimizers() {
  using namespace torch::optim;
  const auto make = [](auto optimizer, auto options) -> MakeOptimizer {
    using Optimizer = typename decltype(optimizer)::type;
    return [options](Parameters parameters) {
      return std::make_unique<Optimizer>(std::move(parameters), options);
    };
  };
  static const std::vector<std::pair<std::string, MakeOptimizer>> all = {
      {"sgd", make(std::type_identity<SGD>(), SGDOptions(0.1))},
      {"sgd_momentum", make(std::type_identity<SGD>(),
                            SGDOptions(0.1).momentum(0.9).weight_decay(0.01).nesterov(true))},
      {"adam",
       make(std::type_identity<Adam>(), AdamOptions(0.1).betas({0.8, 0.9}).weight_decay(0.01))},
      {"adam_amsgrad", make(std::type_identity<Adam>(), AdamOptions(0.1).amsgrad(true))},
      {"adamw", make(std::type_identity<AdamW>(), AdamWOptions(0.1))},
      {"rmsprop",
       make(std::type_identity<RMSprop>(), RMSpropOptions(0.1).momentum(0.5).centered(true))},
      {"adagrad", make(std::type_identity<Adagrad>(), AdagradOptions(0.1).lr_decay(0.01))},
  };
  return all;
}

void step(torch::optim::Optimizer& optimizer, int number) {
  for (auto& group : optimizer.param_groups()) {
    for (auto& parameter : group.params())
      parameter.mutable_grad() = gradient(parameter.sizes(), number);
  }
  optimizer.step();
}

bool same(const at::Tensor& left, const at::Tensor& right) {
  if (left.scalar_type() != right.scalar_type() || left.sizes() != right.sizes()) return false;
  const auto bits = [](const at::Tensor& tensor) {
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape({-1}).view(at::kByte);
  };
  return at::equal(bits(left), bits(right));
}

}  // namespace lockstep::test
