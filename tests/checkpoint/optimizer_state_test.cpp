#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/samples.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;

Parameters parameters() {
  return {torch::ones({2, 3}).requires_grad_(), torch::arange(4, torch::kFloat).requires_grad_()};
}

void copy(const Parameters& from, const Parameters& to) {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < from.size(); ++index)
    at::Tensor(to[index]).copy_(from[index]);
}

Value through_file(const Value& value) {
  const base::TemporaryFolder folder;
  save(value, folder.path() / "optimizer.pth");
  return load_value(folder.path() / "optimizer.pth");
}

std::string refusal(torch::optim::Optimizer& optimizer, const Value& state) {
  try {
    load_optimizer_state_dict(optimizer, state);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

// D71: options are restored, state is replaced and not appended, and the next step is the unbroken
// run's.
TEST(OptimizerStateTest, ResumedRunsEqualUnbrokenOnes) {
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    const Parameters unbroken = parameters();
    const auto optimizer = make(unbroken);
    step(*optimizer, 0);
    step(*optimizer, 1);
    const Value saved = through_file(optimizer_state_dict(*optimizer));

    const Parameters resumed = parameters();
    copy(unbroken, resumed);
    const auto other = make(resumed);
    for (auto& group : other->param_groups()) group.options().set_lr(0.5);
    load_optimizer_state_dict(*other, saved);
    load_optimizer_state_dict(*other, saved);
    EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.1);
    step(*optimizer, 2);
    step(*other, 2);
    for (std::size_t index = 0; index < resumed.size(); ++index)
      EXPECT_TRUE(same(resumed[index], unbroken[index]));
  }
}

TEST(OptimizerStateTest, LoadedStateIsACopy) {
  Parameters mine = parameters();
  Adam adam(mine, AdamOptions(0.1));
  step(adam, 0);
  const Value saved = through_file(optimizer_state_dict(adam));
  const auto before = saved.at("state").at(0).at("exp_avg").tensor().clone();
  load_optimizer_state_dict(adam, saved);
  step(adam, 1);
  EXPECT_TRUE(same(saved.at("state").at(0).at("exp_avg").tensor(), before));
}

TEST(OptimizerStateTest, AFreshOptimizerHasOnlyOptions) {
  Adam adam(parameters(), AdamOptions(0.1));
  const Value state = optimizer_state_dict(adam);
  EXPECT_TRUE(state.at("state").dict().items.empty());
  EXPECT_EQ(state.at("param_groups").items()[0].at("lr").real(), 0.1);
  step(adam, 0);
  load_optimizer_state_dict(adam, state);
  EXPECT_TRUE(adam.state().empty());
}

TEST(OptimizerStateTest, SeveralGroupsKeepTheirOptions) {
  const auto make = [](double lr) {
    const Parameters all = parameters();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Parameters{all[0]}, std::make_unique<AdamOptions>(lr));
    groups.emplace_back(Parameters{all[1]}, std::make_unique<AdamOptions>(2 * lr));
    return Adam(std::move(groups));
  };
  Adam saved = make(0.25);
  step(saved, 0);
  const Value state = optimizer_state_dict(saved);
  EXPECT_EQ(state.at("param_groups").items()[1].at("params").items()[0].integer(), 1);
  Adam loaded = make(0.5);
  load_optimizer_state_dict(loaded, state);
  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.25);
  EXPECT_EQ(loaded.param_groups()[1].options().get_lr(), 0.5);
  EXPECT_EQ(loaded.state().size(), 2u);
}

TEST(OptimizerStateTest, MisfitsAreListedAndNothingChanges) {
  Adam adam(parameters(), AdamOptions(0.1));
  step(adam, 0);
  const Value state = optimizer_state_dict(adam);

  Adam other({torch::ones({2, 2}).requires_grad_(), torch::ones({4}).requires_grad_()},
             AdamOptions(0.5));
  const std::string text = refusal(other, state);
  EXPECT_THAT(text,
              HasSubstr("state[0]: 'exp_avg' is float32[2, 3], the parameter is float32[2, 2]"));
  EXPECT_THAT(text, HasSubstr("state[0]: 'exp_avg_sq'"));
  EXPECT_EQ(other.param_groups()[0].options().get_lr(), 0.5);
  EXPECT_TRUE(other.state().empty());

  Adam fewer({torch::ones({2, 3}).requires_grad_()}, AdamOptions(0.5));
  EXPECT_THAT(refusal(fewer, state), HasSubstr("2 parameters are saved, the optimizer has 1"));
  SGD sgd(parameters(), torch::optim::SGDOptions(0.5));
  EXPECT_THAT(refusal(sgd, state), HasSubstr("'momentum' is missing"));
  EXPECT_EQ(sgd.param_groups()[0].options().get_lr(), 0.5);
  torch::optim::AdamW adamw(parameters());
  EXPECT_THAT(refusal(adamw, state), HasSubstr("'decoupled_weight_decay' is False"));
  EXPECT_THAT(refusal(adam, Value::Dict{{"x", 1}}), HasSubstr("no 'state'; it has 'x'"));
}

TEST(OptimizerStateTest, OtherClassesAreRefusedByName) {
  torch::optim::LBFGS lbfgs(parameters());
  try {
    optimizer_state_dict(lbfgs);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("torch::optim::LBFGS"));
  }
}

}  // namespace lockstep::test
