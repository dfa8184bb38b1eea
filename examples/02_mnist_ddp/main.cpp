// The two classic MNIST jobs, data parallel:
//
//   lockstep run --nproc-per-node 2 02_mnist_ddp                   784-256-10, Adam 0.001, batch
//   64, 10 epochs: 97 % lockstep run --nproc-per-node 2 02_mnist_ddp --recipe sgd      784-10, SGD
//   0.01 x world size, batch 32, 5 epochs: 90 %
//
// Rank 0 prints the loss and writes ddp_model.pth, which Python opens by
// torch.load("ddp_model.pth").
#include <lockstep/lockstep.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool hidden) {
    if (hidden) fc1 = register_module("fc1", torch::nn::Linear(784, 256));
    if (hidden) fc2 = register_module("fc2", torch::nn::Linear(256, 10));
    if (!hidden) fc = register_module("fc", torch::nn::Linear(784, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x.view({-1, 784});
    return fc ? fc(x) : fc2(torch::relu(fc1(x)));
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc{nullptr};
};
TORCH_MODULE(Net);

struct Arguments {
  std::string recipe = "adam", optimizer, data = "data/mnist", backend = "auto",
              init_method = "env://", device = "cpu";
  std::string save = "ddp_model.pth", report;
  int epochs = 0, batch = 0, seed = 0;
  double lr = 0;
  std::optional<int> rank, world_size, local_rank;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("Trains MNIST on every rank of the job");
  app.add_option("--recipe", a.recipe, "adam or sgd: the values below that are not given")
      ->check(CLI::IsMember({"adam", "sgd"}));
  app.add_option("--epochs", a.epochs, "passes over the data [10; sgd: 5]")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", a.batch, "images per step and rank [64; sgd: 32]")
      ->check(CLI::PositiveNumber);
  app.add_option("--optimizer", a.optimizer, "adam or sgd [the recipe's]")
      ->check(CLI::IsMember({"adam", "sgd"}));
  app.add_option("--lr", a.lr, "learning rate [0.001; sgd: 0.01 x world size]")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", a.seed, "of the weights and the order of the data");
  app.add_option("--data", a.data, "folder with the four MNIST files, gzip or raw")
      ->capture_default_str();
  app.add_option("--backend", a.backend, "auto, gloo")->capture_default_str();
  app.add_option("--init-method,--init_method", a.init_method,
                 "env://, tcp://host:port or file:///path")
      ->capture_default_str();
  app.add_option("--device", a.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--save", a.save, "where rank 0 writes the weights")->capture_default_str();
  app.add_option("--report", a.report, "where rank 0 writes its figures as JSON");
  app.add_option("--rank", a.rank, "of this process; launchers set it");
  app.add_option("--world_size,--world-size", a.world_size,
                 "number of processes; launchers set it");
  app.add_option("--local_rank,--local-rank", a.local_rank,
                 "of this process on its host; launchers set it");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  const bool adam = a.recipe == "adam";
  if (a.optimizer.empty()) a.optimizer = a.recipe;
  if (a.epochs == 0) a.epochs = adam ? 10 : 5;
  if (a.batch == 0) a.batch = adam ? 64 : 32;
  // Started by hand, one process a rank of this host.
  if (a.world_size && !a.rank && std::getenv("RANK") == nullptr) a.rank = a.local_rank;
  return a;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// When the system started this process: loading libtorch counts too.
double process_start() {
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string field;
  for (int i = 0; i < 22; ++i) stat >> field;
  double up = 0;
  uptime >> up;
  return now() - up + std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A bar on a terminal; elsewhere a line an epoch. Rank 0 alone shows it.
void show(int epoch, const Arguments& a, std::int64_t step, std::int64_t steps, double loss) {
  static const bool terminal =
      isatty(STDOUT_FILENO) == 1 || std::getenv("LOCKSTEP_TERMINAL") != nullptr;
  if (step < steps && (!terminal || step % 8 != 0)) return;
  const int width = 30, filled = static_cast<int>(width * step / steps);
  std::printf("%sepoch %2d/%d [%s%s] %5ld/%ld  loss %.4f%s", terminal ? "\r" : "", epoch + 1,
              a.epochs, std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str(),
              static_cast<long>(step), static_cast<long>(steps), loss, step == steps ? "\n" : "");
  std::fflush(stdout);
}

int train(const Arguments& a) {
  const double begin = process_start();
  lockstep::Group world = lockstep::init_process_group({.backend = a.backend,
                                                        .init_method = a.init_method,
                                                        .world_size = a.world_size,
                                                        .rank = a.rank});
  const bool chief = world.rank() == 0;
  const torch::Device device(
      a.device == "cuda" ? torch::Device(torch::kCUDA, lockstep::place().local_rank) : torch::kCPU);

  lockstep::Transforms to_input{lockstep::ToTensor()};
  if (a.recipe == "adam") to_input.push_back(lockstep::Normalize(0.5, 0.5));
  auto images = lockstep::load_mnist(a.data, lockstep::MnistSplit::kTrain, to_input);
  lockstep::DistributedSampler sampler(
      images.size(), {.num_replicas = world.size(), .rank = world.rank(), .seed = a.seed});
  lockstep::DataLoader loader(images, sampler, {.batch_size = a.batch});

  torch::manual_seed(a.seed);
  Net net(a.recipe == "adam");
  net->to(device);
  lockstep::DistributedDataParallel model(net, world);
  const double lr = a.lr > 0 ? a.lr : a.optimizer == "adam" ? 0.001 : 0.01 * world.size();
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (a.optimizer == "adam")
    optimizer = std::make_unique<torch::optim::Adam>(net->parameters(), lr);
  if (a.optimizer == "sgd") optimizer = std::make_unique<torch::optim::SGD>(net->parameters(), lr);

  nlohmann::json report{{"loss", nlohmann::json::array()}, {"epoch_s", nlohmann::json::array()}};
  for (int epoch = 0; epoch < a.epochs; ++epoch) {
    const double epoch_begin = now();
    sampler.set_epoch(epoch);
    double loss_sum = 0;
    std::int64_t step = 0;
    for (const lockstep::Batch& batch : loader) {
      optimizer->zero_grad();
      torch::Tensor loss = torch::nn::functional::cross_entropy(model(batch.data.to(device)),
                                                                batch.target.to(device));
      loss.backward();
      optimizer->step();
      loss_sum += loss.item<double>();
      if (!report.contains("first_step_s")) report["first_step_s"] = now() - begin;
      ++step;
      if (chief) show(epoch, a, step, loader.size(), loss_sum / static_cast<double>(step));
    }
    report["loss"].push_back(loss_sum / static_cast<double>(step));
    report["epoch_s"].push_back(now() - epoch_begin);
  }

  // Each rank looks at its share of the test images, each image once.
  world.barrier();
  auto test_images = lockstep::load_mnist(a.data, lockstep::MnistSplit::kTest, to_input);
  lockstep::DistributedSampler share(test_images.size(),
                                     {.num_replicas = world.size(),
                                      .rank = world.rank(),
                                      .shuffle = false,
                                      .remainder = lockstep::Remainder::kUneven});
  torch::NoGradGuard no_grad;
  torch::Tensor right = torch::zeros({1}, torch::kLong);
  for (const lockstep::Batch& batch :
       lockstep::DataLoader(test_images, share, {.batch_size = 1000}))
    right += net(batch.data.to(device)).argmax(1).cpu().eq(batch.target).sum();
  world.all_reduce(right);
  report["accuracy"] = right.item<double>() / static_cast<double>(test_images.size());

  if (chief) {
    lockstep::save(lockstep::state_dict(*net), a.save);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    report.update({{"world_size", world.size()},
                   {"backend", world.backend()},
                   {"peak_rss_mb", usage.ru_maxrss / 1024.0}});
    if (!a.report.empty()) std::ofstream(a.report) << report.dump(2) << '\n';
    std::printf("test accuracy %.2f %% on %ld images; weights in %s\n",
                report["accuracy"].get<double>() * 100, static_cast<long>(test_images.size()),
                a.save.c_str());
  }
  lockstep::destroy_process_group();
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
