// Several ranks learn the real digits as one process does.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "comm/ranks.h"
#include "lockstep/data.h"
#include "lockstep/ddp.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kPixels = 28 * 28;

/// The first `count` digits of a split, as one batch.
Example digits(MnistSplit split, std::int64_t count) {
  const Mnist all =
      load_mnist(LOCKSTEP_SOURCE_DIR "/data/mnist", split, {ToTensor(), Normalize(0.5, 0.5)});
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  Example found = all.get_batch(indices);
  found.data = found.data.view({count, kPixels});
  return found;
}

/// Equal on every call: module initialisation draws from a generator that all threads share, so a
/// test makes its network before its ranks.
torch::nn::Sequential seeded_network() {
  torch::manual_seed(7);
  return torch::nn::Sequential(torch::nn::Linear(kPixels, 32), torch::nn::ReLU(),
                               torch::nn::Linear(32, 10));
}

torch::nn::Sequential copy_of(const torch::nn::Sequential& net) {
  return torch::nn::Sequential(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
}

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

constexpr int kCurveSteps = 30;
constexpr std::int64_t kGlobalBatch = 64;

/// Losses of each step. `rows` picks this process's rows of a global batch.
template <class Model>
std::vector<double> curve(const torch::nn::Sequential& net, Model& model, const Example& train,
                          const torch::Tensor& rows) {
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < kCurveSteps; ++step) {
    const auto at = rows + step * kGlobalBatch;
    optimizer.zero_grad();
    auto loss = loss_of(model(train.data.index_select(0, at)), train.target.index_select(0, at));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.template item<double>());
  }
  return losses;
}

}  // namespace

TEST(DigitsTest, TwoWorkersHaveTheLossCurveOfOneProcess) {
  const Example train = digits(MnistSplit::kTrain, kCurveSteps * kGlobalBatch);
  const auto first = seeded_network();
  auto whole = copy_of(first);
  const auto plain = [&whole](const torch::Tensor& x) { return whole->forward(x); };
  const auto expected = curve(whole, plain, train, torch::arange(kGlobalBatch, torch::kLong));

  std::vector<double> mean(kCurveSteps, 0);
  std::mutex mutex;
  on_ranks(2, [&](Group& group) {
    auto net = copy_of(first);
    DistributedDataParallel model(net, group);
    // As DistributedSampler deals them: every second row.
    const auto rows = torch::arange(group.rank(), kGlobalBatch, 2, torch::kLong);
    const auto losses = curve(net, model, train, rows);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < losses.size(); ++i) mean[i] += losses[i] / 2;
  });
  EXPECT_LT(expected.back(), expected.front() / 2);
  for (std::size_t i = 0; i < mean.size(); ++i)
    EXPECT_NEAR(mean[i], expected[i], 2e-5) << "step " << i;
}

TEST(DigitsTest, D22ParallelTrainingLearnsOnAnyNumberOfRanks) {
  constexpr std::int64_t kDigits = 2000, kBatch = 40;
  const Example train = digits(MnistSplit::kTrain, kDigits);
  const Example test = digits(MnistSplit::kTest, 1000);
  for (const int size : {1, 2, 4}) {
    const auto first = seeded_network();
    on_ranks(size, [&](Group& group) {
      auto net = copy_of(first);
      DistributedDataParallel model(net, group);
      torch::optim::Adam optimizer(net->parameters(), 0.002);
      DistributedSampler sampler(kDigits,
                                 {.num_replicas = group.size(), .rank = group.rank(), .seed = 7});
      for (int epoch = 0; epoch < 4; ++epoch) {
        sampler.set_epoch(epoch);
        const auto order = torch::tensor(sampler.indices());
        for (const auto& at : order.split(kBatch / size)) {
          optimizer.zero_grad();
          loss_of(model(train.data.index_select(0, at)), train.target.index_select(0, at))
              .backward();
          optimizer.step();
        }
      }
      const torch::NoGradGuard no_grad;
      const auto right = net->forward(test.data).argmax(1).eq(test.target);
      EXPECT_GT(right.to(torch::kDouble).mean().item<double>(), 0.8) << size << " ranks";
      for (const auto& parameter : net->parameters()) {
        auto theirs = parameter.detach().clone();
        group.broadcast(theirs, 0);
        EXPECT_TRUE(torch::equal(theirs, parameter)) << "rank " << group.rank() << " of " << size;
      }
    });
  }
}

}  // namespace lockstep::test
