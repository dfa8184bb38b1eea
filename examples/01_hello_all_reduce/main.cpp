// The smallest program: every rank adds its number to a tensor.
//
//   lockstep run --nproc-per-node 2 01_hello_all_reduce
//
// prints, in any order:
//   rank 0 of 2: the ranks sum to 1 (gloo)
//   rank 1 of 2: the ranks sum to 1 (gloo)
#include <lockstep/comm.h>
#include <torch/torch.h>

#include <iostream>
#include <sstream>

int main() try {
  lockstep::Group world = lockstep::init_process_group();
  torch::Tensor sum = torch::full({1}, world.rank(), torch::kLong);
  world.all_reduce(sum);
  std::ostringstream line;
  line << "rank " << world.rank() << " of " << world.size() << ": the ranks sum to "
       << sum.item<long>() << " (" << world.backend() << ")\n";
  std::cout << line.str();
  lockstep::destroy_process_group();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
