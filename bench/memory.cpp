// bench_memory bare|ddp: trains a model with 100 MB of gradients for a few steps and prints the
// process's memory as JSON, from rank 0: the peak of what is resident in it, and what it had with
// all gradients there, where a page that ranks share counts as a part for each.
#include <lockstep/lockstep.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace {

constexpr int kLayers = 24;
constexpr int kWidth = 1024;
constexpr int kBatch = 8;
constexpr int kSteps = 5;

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer) {
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
    model->push_back(torch::nn::ReLU());
  }
  return model;
}

constexpr double kMebi = 1024 * 1024;

/// This process's share of the memory that it maps, in MiB.
double proportional_mb() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kibi = 0;
    if (word == "Pss:" && file >> kibi) return kibi / 1024;
  }
  return 0;
}

/// Returns the largest share that the process had with all gradients there.
template <class Model>
double train(Model& model, const std::vector<torch::Tensor>& parameters) {
  torch::optim::SGD optimizer(parameters, 0.01);
  const torch::Tensor input = torch::randn({kBatch, kWidth});
  double largest = 0;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    model.forward(input).square().mean().backward();
    largest = std::max(largest, proportional_mb());
    optimizer.step();
  }
  return largest;
}

void report(int rank, const std::vector<torch::Tensor>& parameters, double share_mb) {
  if (rank != 0) return;
  double bytes = 0;
  for (const auto& parameter : parameters) bytes += static_cast<double>(parameter.nbytes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::puts(nlohmann::json{{"gradients_mb", bytes / kMebi},
                           {"share_mb", share_mb},
                           {"peak_rss_mb", static_cast<double>(usage.ru_maxrss) / 1024}}
                .dump()
                .c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "bare" && mode != "ddp") {
    std::fprintf(stderr, "usage: %s bare|ddp\n", argv[0]);
    return 2;
  }
  torch::manual_seed(0);
  torch::nn::Sequential model = make_model();
  const auto parameters = model->parameters();
  if (mode == "bare") {
    const double share = train(*model, parameters);
    report(lockstep::place().rank, parameters, share);
    return 0;
  }
  auto world = lockstep::init_process_group();
  lockstep::DistributedDataParallel parallel(model, world);
  const double share = train(parallel, parameters);
  report(world.rank(), parameters, share);
  world.barrier();
  lockstep::destroy_process_group();
  return 0;
}
