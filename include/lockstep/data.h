#pragma once
/// Data: reading samples, and making batches of those that a rank is to see.
///
///     Transforms to_input = {ToTensor(), Normalize(0.5, 0.5)};
///     Mnist train = load_mnist("data/mnist", MnistSplit::kTrain, to_input);
///     DistributedSampler sampler(train.size(), {.num_replicas = 4, .rank = 1});
///     DataLoader loader(train, sampler, {.batch_size = 64});
///     for (const Batch& batch : loader) step(batch.data, batch.target);  // a new order every pass
///
/// All of it is local: no rank talks to another. An object is for one thread at a time; a loader's
/// own threads call only the dataset. Errors: UsageError for a call, DataError for a file.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/distributed_sampler.h"
#include "lockstep/error.h"

namespace lockstep {

/// From image to input, one step after the other. Any callable will do; with workers, several
/// threads call it at once.
using Transform = std::function<at::Tensor(at::Tensor)>;
using Transforms = std::vector<Transform>;

/// uint8 [H, W] or [H, W, C], 0 to 255 -> float32 [C, H, W], 0 to 1, bit for bit as torchvision.
struct ToTensor {
  at::Tensor operator()(const at::Tensor& image) const;
};

/// (x - mean) / std for each channel of a float [C, ...], bit for bit as torchvision. Throws
/// UsageError for a std of 0 or lists that do not match each other or the channels.
struct Normalize {
  Normalize(double mean, double std) : Normalize(std::vector{mean}, std::vector{std}) {}
  Normalize(const std::vector<double>& mean, const std::vector<double>& std);
  at::Tensor operator()(const at::Tensor& image) const;

  at::Tensor mean, std;  ///< float32 [C, 1, 1]
};

/// One sample, or several stacked along dimension 0.
struct Example {
  at::Tensor data;
  at::Tensor target;
};

/// Grey images with a label each, in memory as bytes. A value: copies share the pixels.
class Mnist {
 public:
  /// `images` uint8 [N, H, W], `labels` int64 [N]: not copied, not to be changed while in use.
  Mnist(at::Tensor images, at::Tensor labels, Transforms transforms = {ToTensor()});

  std::int64_t size() const { return images_.size(0); }
  const at::Tensor& images() const { return images_; }
  const at::Tensor& labels() const { return labels_; }

  Example get(std::int64_t index) const;
  /// Several at once: far faster when the transforms are only ToTensor and Normalize.
  Example get_batch(std::span<const std::int64_t> indices) const;

 private:
  at::Tensor images_;
  at::Tensor labels_;
  Transforms transforms_;
  std::vector<float> table_;  // what each byte becomes, when that depends on nothing else
};

enum class MnistSplit { kTrain, kTest };

/// Reads MNIST, or a set like it (28 x 28, ten classes, any number), gzip or raw, from `folder` or
/// its MNIST/raw/. Throws DataError, naming file and offset, for anything missing or wrong.
Mnist load_mnist(const std::filesystem::path& folder, MnistSplit split,
                 Transforms transforms = {ToTensor()});

struct Batch {
  at::Tensor data;    ///< [B, ...]
  at::Tensor target;  ///< [B, ...]
  at::Tensor valid;   ///< bool [B]: false for padding, which an exact evaluation leaves out
};

/// Python's names and defaults.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool drop_last = false;  ///< leave out a last batch that is smaller
  int num_workers = 0;     ///< threads that make batches ahead of need; 0: made when asked for
  std::int64_t prefetch_factor = 2;  ///< batches that each worker may be ahead
};

/// Batches of a dataset in a sampler's order, the same for any number of workers. A dataset is any
/// type with `size()` and `get(index)`, or `get_batch(indices)`, that return an Example or a struct
/// with the same members; with workers, several threads call it at once.
class DataLoader {
 public:
  /// Keeps its own copy of `dataset` (move a large one in); refers to `sampler`, which must outlive
  /// it and serve no other loader. Throws UsageError for a number out of range or unequal sizes.
  template <class Dataset>
  DataLoader(Dataset dataset, DistributedSampler& sampler, DataLoaderOptions options = {});
  /// All samples, in the dataset's order.
  template <class Dataset>
  explicit DataLoader(Dataset dataset, DataLoaderOptions options = {});

  class Iterator;

  /// Starts a pass over the sampler's next epoch; one still under way ends. What the dataset throws
  /// comes out of `begin` or `++`, when its batch is due.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Batches in a pass over the epoch that the sampler is at.
  std::int64_t size() const;

 private:
  struct Source;
  struct Impl;
  DataLoader(Source source, DistributedSampler* sampler, DataLoaderOptions options);
  static Example stack(const std::vector<Example>& examples);

  std::shared_ptr<Impl> impl_;
};

struct DataLoader::Source {
  using Indices = std::span<const std::int64_t>;

  template <class Dataset>
  explicit Source(Dataset dataset) : size(dataset.size()) {
    read = [held = std::make_shared<Dataset>(std::move(dataset))](Indices indices) -> Example {
      if constexpr (requires { held->get_batch(indices).target; }) {
        auto batch = held->get_batch(indices);
        return {batch.data, batch.target};
      } else {
        std::vector<Example> examples;
        for (const std::int64_t index : indices) {
          auto example = held->get(index);
          examples.push_back({example.data, example.target});
        }
        return stack(examples);
      }
    };
  }

  std::int64_t size;
  std::function<Example(Indices)> read;
};

template <class Dataset>
DataLoader::DataLoader(Dataset dataset, DistributedSampler& sampler, DataLoaderOptions options)
    : DataLoader(Source(std::move(dataset)), &sampler, options) {}

template <class Dataset>
DataLoader::DataLoader(Dataset dataset, DataLoaderOptions options)
    : DataLoader(Source(std::move(dataset)), nullptr, options) {}

class DataLoader::Iterator {
 public:
  Batch& operator*() const;
  Iterator& operator++();
  friend bool operator==(const Iterator& at, std::default_sentinel_t) { return !at.pass_; }

 private:
  friend class DataLoader;
  struct Pass;
  std::shared_ptr<Pass> pass_;
};

}  // namespace lockstep
