// The training loop of README.md, word for word: scripts/check_docs.sh compares the two.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

int main() {
  lockstep::Group world = lockstep::init_process_group();
  auto images = lockstep::load_mnist("data/mnist", lockstep::MnistSplit::kTrain);
  lockstep::DistributedSampler sampler(images.size(),
                                       {.num_replicas = world.size(), .rank = world.rank()});
  lockstep::DataLoader loader(images, sampler, {.batch_size = 64});

  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(784, 256), torch::nn::ReLU(),
                            torch::nn::Linear(256, 10));
  lockstep::DistributedDataParallel model(net, world);
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const lockstep::Batch& batch : loader) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      optimizer.step();
    }
  }
  if (world.rank() == 0) lockstep::save(lockstep::state_dict(*net), "model.pth");
  lockstep::destroy_process_group();
}
