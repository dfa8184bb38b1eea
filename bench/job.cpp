// bench_job DATA: the classic MNIST job (784-256-10, Adam, batch 64), taken apart. Each stage from
// the start of the process on is timed, then the parts of an epoch, once with all-reduce and once
// without. Rank 0 prints JSON, in seconds.
#include <lockstep/lockstep.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

using Clock = std::chrono::steady_clock;

/// Adds up the time between laps, by name.
class Laps {
 public:
  void lap(const char* name) {
    const auto now = Clock::now();
    seconds_[name] = seconds_.value(name, 0.0) + std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  void restart() { last_ = Clock::now(); }
  nlohmann::json& seconds() { return seconds_; }

 private:
  nlohmann::json seconds_ = nlohmann::json::object();
  Clock::time_point last_ = Clock::now();
};

/// How long ago the system started this process: loading libtorch comes before main.
double age() {
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string field;
  for (int i = 0; i < 22; ++i) stat >> field;
  double up = 0;
  uptime >> up;
  return up - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return fc2(torch::relu(fc1(x.view({-1, 784})))); }
  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(784, 256));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(256, 10));
};

using Model = lockstep::DistributedDataParallel<std::shared_ptr<Net>>;

void step(Model& model, torch::optim::Optimizer& optimizer, const lockstep::Batch& batch,
          Laps& laps) {
  optimizer.zero_grad();
  laps.lap("zero_grad");
  const auto loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
  laps.lap("forward");
  loss.backward();
  laps.lap("backward");
  optimizer.step();
  laps.lap("optimizer");
  loss.item<double>();
}

nlohmann::json epoch(Model& model, torch::optim::Optimizer& optimizer,
                     lockstep::DataLoader& loader) {
  Laps laps;
  for (auto at = loader.begin(); at != loader.end(); ++at) {
    laps.lap("loader");
    step(model, optimizer, *at, laps);
    laps.restart();
  }
  return laps.seconds();
}

double test_accuracy(Net& net, const lockstep::Mnist& images) {
  const torch::NoGradGuard no_grad;
  std::int64_t right = 0;
  for (const auto& batch : lockstep::DataLoader(images, {.batch_size = 1000}))
    right += net.forward(batch.data).argmax(1).eq(batch.target).sum().item<std::int64_t>();
  return static_cast<double>(right) / static_cast<double>(images.size());
}

void run(const std::filesystem::path& data) {
  nlohmann::json report{{"load_program", age()}};
  Laps stages;
  auto world = lockstep::init_process_group();
  stages.lap("init_process_group");
  const lockstep::Transforms to_input{lockstep::ToTensor(), lockstep::Normalize(0.5, 0.5)};
  const auto images = lockstep::load_mnist(data, lockstep::MnistSplit::kTrain, to_input);
  stages.lap("load_mnist");
  lockstep::DistributedSampler sampler(images.size(),
                                       {.num_replicas = world.size(), .rank = world.rank()});
  lockstep::DataLoader loader(images, sampler, {.batch_size = 64});
  torch::manual_seed(0);
  const auto net = std::make_shared<Net>();
  torch::optim::Adam optimizer(net->parameters(), 0.001);
  stages.lap("model_optimizer");
  Model model(net, world);
  stages.lap("ddp");
  {
    const auto first = loader.begin();
    stages.lap("first_batch");
    Laps unused;
    step(model, optimizer, *first, unused);
    stages.lap("first_step");
  }
  report["epoch_all_reduce"] = epoch(model, optimizer, loader);
  stages.restart();
  const auto test = lockstep::load_mnist(data, lockstep::MnistSplit::kTest, to_input);
  report["accuracy"] = test_accuracy(*net, test);
  stages.lap("test_on_one_rank");
  const auto file = std::filesystem::temp_directory_path() /
                    ("lockstep_bench_" + std::to_string(getpid()) + ".pth");
  lockstep::save(lockstep::state_dict(*net), file);
  stages.lap("save");
  std::filesystem::remove(file);
  world.barrier();
  {
    const auto no_all_reduce = model.no_sync();
    report["epoch_alone"] = epoch(model, optimizer, loader);
  }
  stages.restart();
  lockstep::destroy_process_group();
  stages.lap("destroy_process_group");
  report["stages"] = stages.seconds();
  if (lockstep::place().rank == 0) std::puts(report.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DATA\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
