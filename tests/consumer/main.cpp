// What a user's program touches: a world of one, a collective, a wrapped model, a saved file.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: consumer FILE.pth\n";
    return 2;
  }
  lockstep::Group world = lockstep::init_process_group();
  torch::Tensor ones = torch::ones({2});
  world.all_reduce(ones);

  torch::nn::Linear net(2, 1);
  {
    lockstep::DistributedDataParallel model(net, world);
    model(ones).sum().backward();
  }
  lockstep::save(lockstep::state_dict(*net), argv[1]);
  lockstep::destroy_process_group();
  return net->weight.grad().defined() && ones.sum().item<float>() == 2 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
