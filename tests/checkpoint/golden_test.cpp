#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_GOLDEN) / name;
}

std::string refusal(const std::string& name) {
  try {
    load_value(golden(name));
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

void expect_same(const StateDict& found, const StateDict& expected) {
  EXPECT_EQ(found.keys(), expected.keys());
  for (const auto& item : expected)
    EXPECT_TRUE(same(found[item.key()], item.value())) << item.key();
}

}  // namespace

TEST(GoldenTest, EveryDtype) { expect_same(load(golden("dtypes.pt")), every_dtype()); }

TEST(GoldenTest, ViewsShareWhatTheyShared) {
  const StateDict found = load(golden("views.pt"));
  expect_same(found, views().state_dict());
  EXPECT_EQ(found["transposed"].const_data_ptr(), found["base"].const_data_ptr());
  EXPECT_EQ(found["transposed"].strides(), (std::vector<std::int64_t>{1, 6}));
  EXPECT_EQ(found["row"].strides(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(found["parameter"].requires_grad());
  EXPECT_FALSE(found["base"].requires_grad());
}

TEST(GoldenTest, NetworkFits) {
  torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  load_state_dict(*model, load(golden("network.pt")));
  expect_same(state_dict(*model), state_dict(*network()));
}

TEST(GoldenTest, TrainStateHasItsTypes) {
  const Value state = load_value(golden("train.pt"));
  expect_same(state.at("model").state_dict(), state_dict(*network()));
  EXPECT_EQ(state.at("epoch").integer(), 3);
  EXPECT_EQ(state.at("lr").real(), 0.5);
  EXPECT_EQ(state.at("name").text(), "naïve ✓ 日本");
  EXPECT_TRUE(state.at("none").is_none());
  EXPECT_TRUE(state.at("flags").items()[0].boolean());
  EXPECT_EQ(state.at("big").integer(), std::int64_t{1} << 40);
  EXPECT_EQ(state.at("negative").integer(), -(std::int64_t{1} << 40));
  EXPECT_EQ(state.at("list").items()[1].text(), "a");
  EXPECT_EQ(state.at("size").items()[1].integer(), 3);
  EXPECT_EQ(state.at("milestones").at(5).integer(), 2);
  EXPECT_EQ(state.at(7).text(), "seven");
}

// Python took two steps; the third is taken here, and must give what Python's gave.
TEST(GoldenTest, OptimizersContinue) {
  const Value runs = load_value(golden("optimizers.pt"));
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    const Value& run = runs.at(name);
    Parameters parameters;
    for (const Value& before : run.at("before").items()) {
      parameters.push_back(before.tensor().clone().requires_grad_());
    }
    const auto optimizer = make(parameters);
    load_optimizer_state_dict(*optimizer, run.at("state"));
    step(*optimizer, 2);
    for (std::size_t index = 0; index < parameters.size(); ++index) {
      const auto& after = run.at("after").items()[index].tensor();
      EXPECT_LE((parameters[index] - after).abs().max().item<float>(), 1e-7);
    }
  }
}

TEST(GoldenTest, RefusesWhatIsNoCheckpoint) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("refused_module.pt"), HasSubstr("'torch.nn.modules.linear.Linear'"));
  EXPECT_THAT(refusal("refused_legacy.pt"), HasSubstr("PyTorch before 1.6"));
  EXPECT_THAT(refusal("refused_set.pt"), HasSubstr("set'"));
  EXPECT_THAT(refusal("refused_integer.pt"), HasSubstr("more than 64 bits"));
  EXPECT_THAT(refusal("refused_protocol.pt"), HasSubstr("protocol 4"));
  EXPECT_THAT(refusal("refused_torchscript.pt"), HasSubstr("TorchScript"));
  EXPECT_THAT(refusal("refused_big_endian.pt"), HasSubstr("'big' byte order"));
}

}  // namespace lockstep::test
