#include "lockstep/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "comm/ranks.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using test::message_of;
using test::on_ranks;
using testing::AllOf;
using testing::HasSubstr;

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl(int width = 8, bool bias = true, at::ScalarType dtype = at::kFloat) {
    a = register_module("a", torch::nn::Linear(torch::nn::LinearOptions(4, width).bias(bias)));
    b = register_module("b", torch::nn::Linear(width, 2));
    to(dtype);
  }
  torch::Tensor forward(const torch::Tensor& x) { return b(torch::tanh(a(x))); }
  torch::nn::Linear a{nullptr}, b{nullptr};
};
TORCH_MODULE(TwoLayers);

/// Rows that every rank can make for every other.
torch::Tensor rows_of(int rank, std::int64_t count, at::ScalarType dtype = at::kDouble) {
  return torch::sin(torch::arange(count * 4, at::kDouble) + 100 * rank).view({count, 4}).to(dtype);
}

/// Weights that differ by `seed` and are equal on every rank and thread: module initialisation
/// draws from the generator that all threads share.
void fill(torch::nn::Module& module, int seed) {
  const torch::NoGradGuard no_grad;
  int number = seed;
  for (auto& parameter : module.parameters()) {
    ++number;
    parameter.copy_(
        torch::cos(torch::arange(parameter.numel(), at::kDouble) * number).view(parameter.sizes()) *
        0.5);
  }
}

std::vector<torch::Tensor> gradients(const torch::nn::Module& module) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : module.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
  return all;
}

}  // namespace

TEST(DdpTest, GradientsEqualThoseOfTheConcatenatedBatch) {
  for (const int size : {1, 2, 3, 4}) {
    TwoLayers whole(8, true, at::kDouble);
    fill(*whole, 1);
    std::vector<torch::Tensor> rows;
    for (int rank = 0; rank < size; ++rank) rows.push_back(rows_of(rank, 5));
    whole->forward(torch::cat(rows)).square().mean().backward();
    const auto expected = gradients(*whole);
    on_ranks(size, [&](Group& group) {
      TwoLayers net(8, true, at::kDouble);
      fill(*net, group.rank() == 0 ? 1 : 99);  // the constructor makes them equal
      DistributedDataParallel model(net, group, {.bucket_cap_mb = 1e-4, .first_bucket_mb = 1e-5});
      for (int step = 0; step < 3; ++step) {
        for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
        model(rows_of(group.rank(), 5)).square().mean().backward();
        const auto found = gradients(*net);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_TRUE(torch::allclose(found[i], expected[i], 1e-12, 1e-15))
              << size << " ranks, parameter " << i;
        }
      }
    });
  }
}

TEST(DdpTest, GradientsAreViewsOfFewBuckets) {
  on_ranks(2, [](Group& group) {
    TwoLayers net;
    DistributedDataParallel model(net, group);
    model(rows_of(group.rank(), 3, at::kFloat)).sum().backward();
    const auto first = net->a->weight.grad();
    for (const auto& parameter : net->parameters())
      EXPECT_TRUE(parameter.grad().is_alias_of(first));
    // Zeroed in place or dropped: they come back as the same views.
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (const bool set_to_none : {true, false}) {
      optimizer.zero_grad(set_to_none);
      model(rows_of(group.rank(), 3, at::kFloat)).sum().backward();
      EXPECT_EQ(net->a->weight.grad().data_ptr(), first.data_ptr());
    }
  });
}

TEST(DdpTest, NoSyncAccumulatesAndIsDecidedAtBackward) {
  on_ranks(2, [](Group& group) {
    TwoLayers net(8, true, at::kDouble);
    fill(*net, 1);
    DistributedDataParallel model(net, group);
    // Forward inside, backward outside: synchronised.
    std::optional<torch::Tensor> loss;
    {
      const auto local = model.no_sync();
      loss = model(rows_of(group.rank(), 2)).sum();
    }
    loss->backward();
    auto mine = net->a->weight.grad().clone(), other = mine.clone();
    group.broadcast(other, 0);
    EXPECT_TRUE(torch::equal(mine, other));

    for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
    {
      const auto outer = model.no_sync();
      {
        const auto inner = model.no_sync();
        model(rows_of(group.rank(), 2)).sum().backward();
      }
      model(rows_of(group.rank() + 2, 2)).sum().backward();
    }
    mine = net->a->weight.grad().clone();
    other = mine.clone();
    group.broadcast(other, 0);
    if (group.rank() == 1) {
      EXPECT_FALSE(torch::equal(mine, other));
    }
    model(rows_of(group.rank() + 4, 2)).sum().backward();

    TwoLayers whole(8, true, at::kDouble);
    fill(*whole, 1);
    std::vector<torch::Tensor> rows;
    for (int i = 0; i < 6; ++i) rows.push_back(rows_of(i, 2));
    (whole->forward(torch::cat(rows)).sum() / 2).backward();
    const auto found = gradients(*net), expected = gradients(*whole);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-12, 1e-14));
  });
}

TEST(DdpTest, UnusedParametersAreFoundInTheSameBackward) {
  // Cases D17, D18: rank 0 uses layer a, rank 1 layer b; layer c nobody.
  struct BranchesImpl : torch::nn::Module {
    BranchesImpl() {
      for (const char* name : {"a", "b", "c"}) register_module(name, torch::nn::Linear(4, 1));
      to(at::kDouble);
    }
  };
  on_ranks(2, [](Group& group) {
    auto net = std::make_shared<BranchesImpl>();
    DistributedDataParallel model(net, group);
    const auto parameters = net->named_parameters();
    const std::string used = group.rank() == 0 ? "a" : "b";
    for (int step = 0; step < 2; ++step) {
      for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
      torch::nn::functional::linear(rows_of(group.rank(), 3), parameters[used + ".weight"],
                                    parameters[used + ".bias"])
          .sum()
          .backward();
      for (const char* layer : {"a", "b"}) {
        const auto expected = rows_of(layer[0] == 'a' ? 0 : 1, 3).sum(0, true) / 2;
        EXPECT_TRUE(
            torch::allclose(parameters[std::string(layer) + ".weight"].grad(), expected, 1e-12));
        EXPECT_EQ(parameters[std::string(layer) + ".bias"].grad().item<double>(), 1.5);
      }
      EXPECT_FALSE(parameters["c.weight"].grad().defined());
    }
  });
}

TEST(DdpTest, DifferentModelsAreRefusedOnEveryRankByName) {
  const auto refusal = [](const std::function<TwoLayers(int)>& make) {
    std::vector<std::string> texts(2);
    on_ranks(2, [&](Group& group) {
      texts[static_cast<std::size_t>(group.rank())] =
          message_of([&] { DistributedDataParallel model(make(group.rank()), group); });
    });
    EXPECT_EQ(texts[0].substr(texts[0].find(']')), texts[1].substr(texts[1].find(']')));
    return texts[0];
  };
  EXPECT_THAT(
      refusal([](int rank) { return TwoLayers(8 + rank); }),
      AllOf(HasSubstr("a.weight"), HasSubstr("[8, 4]"), HasSubstr("[9, 4]"), HasSubstr("rank 1")));
  EXPECT_THAT(refusal([](int rank) { return TwoLayers(8, rank == 0); }),
              AllOf(HasSubstr("a.bias"), HasSubstr("b.weight")));
  EXPECT_THAT(
      refusal([](int rank) { return TwoLayers(8, true, rank == 0 ? at::kFloat : at::kDouble); }),
      AllOf(HasSubstr("Float"), HasSubstr("Double")));
  EXPECT_THAT(refusal([](int rank) {
                TwoLayers net;
                net->b->bias.set_requires_grad(rank == 0);
                return net;
              }),
              AllOf(HasSubstr("b.bias"), HasSubstr("frozen")));
}

TEST(DdpTest, BuffersFollowRankZeroOnceAStep) {
  on_ranks(2, [](Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    DistributedDataParallel model(net, group);
    const auto mean = net->named_buffers()["1.running_mean"];
    for (int step = 0; step < 2; ++step) {
      auto first = model(rows_of(group.rank(), 4, at::kFloat));
      auto second = model(rows_of(group.rank() + 7, 4, at::kFloat));
      (first.sum() + second.square().sum()).backward();
    }
    const torch::NoGradGuard no_grad;
    model(rows_of(group.rank(), 4,
                  at::kFloat));  // begins a step: brings rank 0's statistics, then its own update
    net->eval();
    auto theirs = mean.clone();
    group.broadcast(theirs, 0);
    const auto expected_gap =
        0.1 * (net[0]->as<torch::nn::Linear>()->forward(rows_of(1, 4, at::kFloat)).mean(0) -
               net[0]->as<torch::nn::Linear>()->forward(rows_of(0, 4, at::kFloat)).mean(0));
    if (group.rank() == 1) {
      EXPECT_TRUE(torch::allclose(mean - theirs, expected_gap, 1e-4, 1e-6));
    }
  });
}

TEST(DdpTest, AForwardOutsideTheWrapperIsReducedAllTheSame) {
  on_ranks(2, [](Group& group) {
    TwoLayers net;
    DistributedDataParallel model(net, group);
    net->forward(rows_of(group.rank(), 3, at::kFloat)).sum().backward();
    auto theirs = net->a->weight.grad().clone();
    group.broadcast(theirs, 0);
    EXPECT_TRUE(torch::equal(theirs, net->a->weight.grad()));
  });
}

TEST(DdpTest, SettingsAndModulesWithoutParametersAreRefused) {
  on_ranks(1, [](Group& group) {
    EXPECT_THAT(message_of([&] { DistributedDataParallel model(torch::nn::ReLU(), group); }),
                HasSubstr("no parameter"));
  });
  on_ranks(2, [](Group& group) {
    EXPECT_THAT(message_of([&] {
                  DistributedDataParallel model(TwoLayers(), group, {.bucket_cap_mb = 0});
                }),
                HasSubstr("bucket_cap_mb is 0"));
  });
}

TEST(DdpTest, TwoModelsTrainSideBySideAndUnhookWhenDestroyed) {
  on_ranks(2, [](Group& group) {
    TwoLayers generator, critic;
    {
      DistributedDataParallel first(generator, group), second(critic, group);
      for (int step = 0; step < 2; ++step) {
        second(rows_of(group.rank(), 3, at::kFloat)).sum().backward();
        first(rows_of(group.rank(), 3, at::kFloat)).square().sum().backward();
      }
    }
    generator->forward(rows_of(0, 2, at::kFloat)).sum().backward();
    EXPECT_TRUE(generator->a->weight.grad().defined());
  });
}

}  // namespace lockstep
