// Training equals Python's: scripts/golden/ddp_weights.py makes the file and says what is in it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/ranks.h"
#include "lockstep/ddp.h"

namespace lockstep::test {
namespace {

constexpr int kSteps = 20;
constexpr std::int64_t kRows = 8, kInputs = 20, kHidden = 16, kClasses = 10;
constexpr double kTolerance = 1e-6;

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<Optimizer(std::vector<torch::Tensor>)>;

torch::nn::Sequential network() {
  torch::nn::Sequential net(torch::nn::Linear(kInputs, kHidden), torch::nn::ReLU(),
                            torch::nn::Linear(kHidden, kClasses));
  const torch::NoGradGuard no_grad;
  int number = 0;
  for (auto& parameter : net->parameters())
    parameter.copy_((torch::cos(torch::arange(parameter.numel(), torch::kDouble) * ++number) * 0.25)
                        .view(parameter.sizes()));
  return net;
}

torch::Tensor inputs(int step, int rank) {
  const auto values = torch::arange(kRows * kInputs, torch::kDouble) * 0.37 + 5 * step + 100 * rank;
  return torch::sin(values).view({kRows, kInputs}).to(torch::kFloat);
}

torch::Tensor labels(int step, int rank) {
  return (torch::arange(kRows, torch::kLong) * 7 + step * 3 + rank) % kClasses;
}

void expect_python(const std::string& name, const MakeOptimizer& make) {
  std::ifstream file(LOCKSTEP_GOLDEN "/ddp_weights.json");
  const auto golden = nlohmann::json::parse(file).at(name);
  on_ranks(2, [&](Group& group) {
    auto net = network();
    DistributedDataParallel model(net, group);
    const auto optimizer = make(net->parameters());
    for (int step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      auto loss = torch::nn::functional::cross_entropy(model(inputs(step, group.rank())),
                                                       labels(step, group.rank()));
      loss.backward();
      optimizer->step();
      EXPECT_NEAR(loss.item<double>(), golden["losses"][group.rank()][step].get<double>(),
                  kTolerance)
          << "rank " << group.rank() << ", step " << step;
    }
    const auto parameters = net->parameters();
    ASSERT_EQ(golden["weights"].size(), parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto values = golden["weights"][i].get<std::vector<float>>();
      const auto expected = torch::tensor(values).view(parameters[i].sizes());
      EXPECT_LE((parameters[i] - expected).abs().max().item<double>(), kTolerance)
          << "parameter " << i << " on rank " << group.rank();
    }
  });
}

}  // namespace

TEST(GoldenWeightsTest, AdamEqualsPython) {
  expect_python("adam", [](std::vector<torch::Tensor> parameters) {
    return std::make_unique<torch::optim::Adam>(parameters, 0.001);
  });
}

TEST(GoldenWeightsTest, SgdEqualsPython) {
  expect_python("sgd", [](std::vector<torch::Tensor> parameters) {
    return std::make_unique<torch::optim::SGD>(parameters, 0.1);
  });
}

}  // namespace lockstep::test
