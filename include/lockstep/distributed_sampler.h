#pragma once
/// Which samples each rank sees, and in what order.
///
///     DistributedSampler sampler(dataset.size(), {.num_replicas = 4, .rank = 1});
///     for (std::int64_t index : sampler.indices()) ...
///
/// Local: ranks agree because each computes the same order. An object is for one thread at a time.

#include <cstdint>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {

/// What happens when the samples do not divide evenly among the replicas.
enum class Remainder {
  kPad,    ///< the head of the order is repeated; `Batch::valid` is false for what was seen before
  kDrop,   ///< the tail of the order is left out (Python's drop_last = true)
  kUneven  ///< some ranks get one sample more: for evaluation, not for training in step
};

/// Python's names and defaults.
struct DistributedSamplerOptions {
  std::int64_t num_replicas = 1;  ///< number of ranks that share the dataset
  std::int64_t rank = 0;          ///< this one, from 0
  bool shuffle = true;
  std::int64_t seed = 0;   ///< equal on every rank
  bool drop_last = false;  ///< short for `remainder = Remainder::kDrop`
  Remainder remainder = Remainder::kPad;
};

/// Where a job stands in its data: independent of the number of ranks, so that a job saved by four
/// goes on with three. Save rank 0's.
struct SamplerState {
  std::int64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  ///< samples of the epoch's order that all ranks together have used
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

/// This rank's share of the samples, in an order that differs each epoch and is exactly that of
/// Python's torch.utils.data.DistributedSampler.
class DistributedSampler {
 public:
  /// Throws UsageError, naming the argument, for one out of range or an empty dataset.
  explicit DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options = {});

  /// Chooses the next pass's epoch; not needed to count up, which a loader does at every pass.
  /// Choosing the epoch that `load_state` brought keeps its position.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }

  /// This rank's samples of the epoch, in order; after `load_state`, those left of it.
  std::vector<std::int64_t> indices() const;
  /// How many they are, and how many of them are not padding (these come first).
  std::int64_t size() const;
  std::int64_t valid_size() const;
  std::int64_t dataset_size() const { return dataset_size_; }

  /// The position after all samples handed out; after a whole pass, the start of the next epoch.
  SamplerState state() const;
  /// Goes on from `state`: across the ranks, each sample left comes once (padding aside).
  void load_state(const SamplerState& state);

  /// For loops without a DataLoader, which calls these itself: `start_pass` goes to the next epoch
  /// unless one was chosen since the last pass, `advance` counts samples of `indices()` as used.
  void start_pass();
  void advance(std::int64_t samples);

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t start_ = 0;  // position in the epoch's order where this pass begins
  std::int64_t taken_ = 0;  // of this rank's samples, in this pass
  bool started_ = false;
};

}  // namespace lockstep
