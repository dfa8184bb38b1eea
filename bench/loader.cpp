// bench_loader: how many MNIST images a second one core turns into batches, ToTensor and Normalize
// included. LOCKSTEP_BENCH_DATA names the folder with the four files.
#include <benchmark/benchmark.h>
#include <lockstep/data.h>
#include <torch/torch.h>

#include <cstdlib>
#include <stdexcept>

namespace {

const lockstep::Mnist& images() {
  static const lockstep::Mnist set = [] {
    const char* folder = std::getenv("LOCKSTEP_BENCH_DATA");
    const lockstep::Transforms to_input{lockstep::ToTensor(), lockstep::Normalize(0.5, 0.5)};
    return lockstep::load_mnist(folder == nullptr ? "data/mnist" : folder,
                                lockstep::MnistSplit::kTrain, to_input);
  }();
  return set;
}

// The fast path must give what the transforms give for one image.
void check(const lockstep::Batch& batch, std::int64_t index) {
  if (!batch.data[0].equal(images().get(index).data))
    throw std::runtime_error("a batch differs from the transforms of its images");
}

void epoch(benchmark::State& state) {
  torch::set_num_threads(1);
  lockstep::DistributedSampler sampler(images().size(), {.num_replicas = 2, .rank = 0});
  lockstep::DataLoader loader(images(), sampler,
                              {.batch_size = 64, .num_workers = static_cast<int>(state.range(0))});
  const std::int64_t first = sampler.indices().front();
  check(*loader.begin(), first);
  std::int64_t seen = 0;
  for (auto _ : state)
    for (const lockstep::Batch& batch : loader) seen += batch.data.size(0);
  state.SetItemsProcessed(seen);
}

}  // namespace

// By the processor time of all threads: per core, whatever the number of workers.
BENCHMARK(epoch)->ArgName("workers")->Arg(0)->Arg(1)->MeasureProcessCPUTime()->Unit(
    benchmark::kMillisecond);

BENCHMARK_MAIN();
