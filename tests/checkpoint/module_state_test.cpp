#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    // The order of registration mixes kinds; Python sorts by kind within a module.
    inner = register_module("inner", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
    offset = register_buffer("offset", torch::zeros(1));
    scale = register_parameter("scale", torch::ones(1));
  }
  at::Tensor forward(const at::Tensor& input) { return inner(input) * scale + offset; }

  torch::nn::Linear inner = nullptr;
  at::Tensor offset, scale;
};
TORCH_MODULE(Block);

std::string refusal(torch::nn::Module& module, const StateDict& state, bool strict = true) {
  try {
    load_state_dict(module, state, strict);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

StateDict with(const StateDict& state, const std::string& name, const at::Tensor& tensor) {
  StateDict changed;
  for (const auto& item : state)
    changed.insert(item.key(), item.key() == name ? tensor : item.value());
  if (!changed.contains(name)) changed.insert(name, tensor);
  return changed;
}

}  // namespace

TEST(ModuleStateTest, NamesAndOrderArePythons) {
  const torch::nn::Sequential model(Block(), torch::nn::BatchNorm1d(1));
  EXPECT_THAT(state_dict(*model).keys(),
              ElementsAre("0.scale", "0.offset", "0.inner.weight", "1.weight", "1.bias",
                          "1.running_mean", "1.running_var", "1.num_batches_tracked"));
}

TEST(ModuleStateTest, SharesMemoryWithoutGradient) {
  torch::nn::Linear linear(2, 2);
  const auto state = state_dict(*linear);
  EXPECT_EQ(state["weight"].const_data_ptr(), linear->weight.const_data_ptr());
  EXPECT_FALSE(state["weight"].requires_grad());
}

TEST(ModuleStateTest, TiedParametersAppearUnderEachName) {
  torch::nn::Linear linear(2, 2);
  torch::nn::Sequential model(linear, linear);
  EXPECT_EQ(state_dict(*model).size(), 4u);
  const base::TemporaryFolder folder;
  save(state_dict(*model), folder.path() / "tied.pth");
  const auto loaded = load(folder.path() / "tied.pth");
  EXPECT_EQ(loaded["0.weight"].const_data_ptr(), loaded["1.weight"].const_data_ptr());
  load_state_dict(*model, loaded);
}

TEST(ModuleStateTest, EveryMisfitIsListedAndNothingChanges) {
  auto model = network();
  const auto before = model->parameters()[0].clone();
  StateDict state = with(state_dict(*model), "0.weight", torch::full({5, 3}, 7.0));
  state = with(state, "0.bias", torch::ones(2, at::kDouble));
  state = with(state, "head.weight", torch::ones({2, 1}));
  StateDict other;
  for (const auto& item : state) {
    if (item.key() != "1.bias") other.insert(item.key(), item.value() + 1);
  }
  const std::string text = refusal(*model, other);
  EXPECT_THAT(text, HasSubstr("1 missing, 1 unexpected, 2 of another shape or dtype"));
  EXPECT_THAT(text, HasSubstr("missing: 1.bias float32[2]"));
  EXPECT_THAT(text, HasSubstr("unexpected: head.weight float32[2, 1]"));
  EXPECT_THAT(text, HasSubstr("0.weight is float32[5, 3], the module's is float32[2, 3]"));
  EXPECT_THAT(text, HasSubstr("0.bias is float64[2], the module's is float32[2]"));
  EXPECT_TRUE(same(model->parameters()[0], before));
}

TEST(ModuleStateTest, NotStrictTakesWhatBothHave) {
  auto model = network();
  StateDict some;
  some.insert("0.bias", torch::full({2}, 42.0));
  some.insert("head.weight", torch::ones(1));
  load_state_dict(*model, some, /*strict=*/false);
  EXPECT_TRUE(same(state_dict(*model)["0.bias"], torch::full({2}, 42.0)));
  some["0.bias"] = torch::ones(3);
  EXPECT_THAT(refusal(*model, some, /*strict=*/false), HasSubstr("0.bias is float32[3]"));
}

TEST(ModuleStateTest, LoadedParametersStillTrain) {
  auto model = network();
  load_state_dict(*model, state_dict(*network()));
  model->forward(torch::ones({4, 3})).sum().backward();
  EXPECT_TRUE(model->parameters()[0].grad().defined());
}

}  // namespace lockstep::test
