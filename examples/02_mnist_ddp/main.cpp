// The two classic MNIST jobs, data parallel:
//
//   lockstep run --nproc-per-node 2 02_mnist_ddp                 784-256-10, Adam 0.001, batch 64
//   lockstep run --nproc-per-node 2 02_mnist_ddp --recipe sgd    784-10, SGD 0.01 x world size,
//   batch 32
//
// After 10 epochs the first prints "test accuracy 97.x %", after 5 the second 90.x. Rank 0 alone
// prints, and writes ddp_model.pth, which Python's torch.load opens.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include "job.h"

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool hidden) {
    if (hidden) {
      fc1 = register_module("fc1", torch::nn::Linear(784, 256));
      fc2 = register_module("fc2", torch::nn::Linear(256, 10));
    } else {
      fc = register_module("fc", torch::nn::Linear(784, 10));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x.view({-1, 784});
    return fc ? fc(x) : fc2(torch::relu(fc1(x)));
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc{nullptr};
};
TORCH_MODULE(Net);

void train(const Arguments& a) {
  Report report;
  const torch::Device device = device_of(a, lockstep::place().local_rank);
  lockstep::Group world = lockstep::init_process_group({.backend = a.backend,
                                                        .init_method = a.init_method,
                                                        .world_size = a.world_size,
                                                        .rank = a.rank});
  const bool chief = world.rank() == 0;
  if (chief) {
    require_writable("--save", a.save);
    require_writable("--report", a.report);
  }

  // Each rank reads its share of the images, in an order that changes every epoch.
  lockstep::Transforms to_input{lockstep::ToTensor()};
  if (a.recipe == "adam") to_input.push_back(lockstep::Normalize(0.5, 0.5));
  const auto images = lockstep::load_mnist(a.data, lockstep::MnistSplit::kTrain, to_input);
  lockstep::DistributedSampler sampler(
      images.size(), {.num_replicas = world.size(), .rank = world.rank(), .seed = a.seed});
  lockstep::DataLoader loader(images, sampler, {.batch_size = a.batch});

  torch::manual_seed(a.seed);
  Net net(a.recipe == "adam");
  net->to(device);
  lockstep::DistributedDataParallel model(net, world);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (a.optimizer == "adam") {
    optimizer = std::make_unique<torch::optim::Adam>(net->parameters(), a.lr.value_or(0.001));
  } else {
    optimizer =
        std::make_unique<torch::optim::SGD>(net->parameters(), a.lr.value_or(0.01 * world.size()));
  }

  for (int epoch = 0; epoch < a.epochs; ++epoch) {
    report.begin_epoch(chief, epoch, a.epochs, loader.size());
    sampler.set_epoch(epoch);
    for (const lockstep::Batch& batch : loader) {
      optimizer->zero_grad();
      auto loss = torch::nn::functional::cross_entropy(model(batch.data.to(device)),
                                                       batch.target.to(device));
      loss.backward();
      optimizer->step();
      report.step(loss.item<double>());
    }
    report.end_epoch();
  }
  world.barrier();

  // Each rank looks at its share of the test images, each image once.
  const torch::NoGradGuard no_grad;
  const auto test = lockstep::load_mnist(a.data, lockstep::MnistSplit::kTest, to_input);
  lockstep::DistributedSampler share(test.size(), {.num_replicas = world.size(),
                                                   .rank = world.rank(),
                                                   .shuffle = false,
                                                   .remainder = lockstep::Remainder::kUneven});
  torch::Tensor right = torch::zeros({1}, torch::TensorOptions(device).dtype(torch::kLong));
  for (const lockstep::Batch& batch : lockstep::DataLoader(test, share, {.batch_size = 1000}))
    right += net(batch.data.to(device)).argmax(1).eq(batch.target.to(device)).sum();
  world.all_reduce(right);
  const double accuracy = right.item<double>() / static_cast<double>(test.size());

  if (chief) {
    lockstep::save(lockstep::state_dict(*net), a.save);
    std::printf("test accuracy %.2f %% on %ld images; weights in %s\n", accuracy * 100,
                static_cast<long>(test.size()), a.save.c_str());
    if (!a.report.empty()) report.write(a.report, accuracy, world.size(), world.backend());
  }
  lockstep::destroy_process_group();
}

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
