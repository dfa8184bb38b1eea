#pragma once
// What the job needs around its training loop: the command line, the progress bar and the JSON
// report.
#include <lockstep/error.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

struct Arguments {
  std::string recipe = "adam", optimizer, data = "data/mnist";
  std::string backend = "auto", init_method = "env://", device = "cpu";
  std::string save = "ddp_model.pth", report;
  int epochs = 0, batch = 0, seed = 0;
  std::optional<double> lr;
  std::optional<int> rank, world_size, local_rank;
};

/// Ends the process for --help and for what it cannot read.
inline Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("Trains MNIST on every rank of the job");
  const auto one_of = [](const char* one, const char* other) {
    return CLI::IsMember(std::vector<std::string>{one, other});
  };
  app.add_option("--recipe", a.recipe, "adam or sgd: the defaults below")
      ->check(one_of("adam", "sgd"));
  app.add_option("--epochs", a.epochs, "passes over the data [10; sgd: 5]")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", a.batch, "images per step and rank [64; sgd: 32]")
      ->check(CLI::PositiveNumber);
  app.add_option("--optimizer", a.optimizer, "adam or sgd [the recipe's]")
      ->check(one_of("adam", "sgd"));
  app.add_option("--lr", a.lr, "learning rate [0.001; sgd: 0.01 x world size]")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", a.seed, "of the weights and of the data's order");
  app.add_option("--data", a.data, "folder with the MNIST files, gzip or raw")
      ->capture_default_str();
  app.add_option("--backend", a.backend, "auto, gloo, mpi; for cuda: nccl")->capture_default_str();
  app.add_option("--init-method,--init_method", a.init_method,
                 "env://, tcp://host:port, file:///path")
      ->capture_default_str();
  app.add_option("--device", a.device, "cpu or cuda")->check(one_of("cpu", "cuda"));
  app.add_option("--save", a.save, "where rank 0 writes the weights")->capture_default_str();
  app.add_option("--report", a.report, "where rank 0 writes its figures as JSON");
  app.add_option("--rank", a.rank, "of this process; launchers set it");
  app.add_option("--world_size,--world-size", a.world_size,
                 "number of processes; launchers set it");
  app.add_option("--local_rank,--local-rank", a.local_rank, "rank on this host; launchers set it");
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
  if (a.device == "cuda" && a.backend == "auto") a.backend = "nccl";
  return a;
}

/// The CPU, or the GPU of this rank among those that CUDA_VISIBLE_DEVICES leaves it.
inline torch::Device device_of(const Arguments& a, int local_rank) {
  if (a.device == "cpu") return torch::kCPU;
  const auto visible = static_cast<int>(torch::cuda::device_count());
  if (visible == 0)
    throw lockstep::UsageError(
        "--device cuda, but no GPU is visible to this program",
        "build with LOCKSTEP_CUDA=1 ./dev build, look at nvidia-smi and CUDA_VISIBLE_DEVICES, or "
        "give --device cpu");
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(local_rank % visible)};
}

/// Told before the training, not after it. An empty path is not written.
inline void require_writable(const char* flag, const std::filesystem::path& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const std::string place = std::string(flag) + " " + file.string() + ": ";
  if (!std::filesystem::is_directory(folder))
    throw lockstep::UsageError(place + "there is no folder " + folder.string(),
                               "mkdir -p " + folder.string() + ", or give another path");
  if (std::filesystem::is_directory(file))
    throw lockstep::UsageError(place + "it is a folder", "give the name of a file in it");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw lockstep::UsageError(place + "the folder " + folder.string() + " cannot be written",
                               "give a path in a folder of yours");
}

/// Counts and shows what the training does.
class Report {
 public:
  void begin_epoch(bool visible, int epoch, int epochs, std::int64_t steps) {
    visible_ = visible;
    title_ = "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(epochs);
    steps_ = steps;
    step_ = 0;
    loss_ = 0;
    epoch_begin_ = now();
  }

  void step(double loss) {
    if (first_step_ == 0) first_step_ = now() - process_start();
    loss_ += loss;
    if (++step_ == steps_ || (terminal_ && step_ % 8 == 0)) show();
  }

  void end_epoch() {
    losses_.push_back(loss_ / static_cast<double>(steps_));
    epoch_seconds_.push_back(now() - epoch_begin_);
  }

  void write(const std::string& path, double accuracy, int world_size,
             const std::string& backend) const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const nlohmann::json report{{"accuracy", accuracy},
                                {"loss", losses_},
                                {"first_step_s", first_step_},
                                {"epoch_s", epoch_seconds_},
                                {"world_size", world_size},
                                {"backend", backend},
                                {"peak_rss_mb", static_cast<double>(usage.ru_maxrss) / 1024}};
    std::ofstream file(path);
    if (!(file << report.dump(2) << std::endl))
      throw std::runtime_error("cannot write the report to " + path);
  }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// When the system started this process, on now()'s clock: loading libtorch counts too.
  static double process_start() {
    std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
    std::string field;
    for (int i = 0; i < 22; ++i) stat >> field;
    double up = 0;
    uptime >> up;
    return now() - up + std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  /// A bar that moves on a terminal, a line an epoch elsewhere; rank 0's alone.
  void show() const {
    if (!visible_) return;
    const auto filled = static_cast<std::size_t>(30 * step_ / steps_);
    const std::string bar = std::string(filled, '#') + std::string(30 - filled, '.');
    std::printf("%s%s [%s] %ld/%ld  loss %.4f%s", terminal_ ? "\r" : "", title_.c_str(),
                bar.c_str(), static_cast<long>(step_), static_cast<long>(steps_),
                loss_ / static_cast<double>(step_), step_ == steps_ ? "\n" : "");
    std::fflush(stdout);
  }

  // lockstep run redraws the bar on its own terminal, and drops all but the last state elsewhere.
  const bool terminal_ = isatty(STDOUT_FILENO) == 1 || std::getenv("LOCKSTEP_JOB_ID") != nullptr;
  bool visible_ = false;
  std::string title_;
  std::int64_t steps_ = 0, step_ = 0;
  double loss_ = 0, epoch_begin_ = 0, first_step_ = 0;
  std::vector<double> losses_, epoch_seconds_;
};
