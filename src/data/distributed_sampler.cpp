#include "lockstep/distributed_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <algorithm>

#include "base/concat.h"
#include "base/log.h"

namespace lockstep {
namespace {

using base::concat;

void check(std::int64_t dataset_size, const DistributedSamplerOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw UsageError(concat("DistributedSampler: ", what), remedy);
  };
  if (dataset_size < 1) {
    refuse(concat("dataset_size is ", dataset_size, ": the dataset is empty"), "give it samples");
  }
  if (options.num_replicas < 1) {
    refuse(concat("num_replicas is ", options.num_replicas),
           "give the number of ranks, at least 1");
  }
  if (options.rank < 0 || options.rank >= options.num_replicas) {
    refuse(concat("rank is ", options.rank), concat("with num_replicas ", options.num_replicas,
                                                    " it is 0 to ", options.num_replicas - 1));
  }
  if (options.drop_last && options.remainder == Remainder::kUneven) {
    refuse("drop_last is set, but remainder is kUneven", "choose one of them");
  }
}

// How many samples rank `rank` of `replicas` gets when `count` are dealt out one by one.
std::int64_t dealt(std::int64_t count, std::int64_t rank, std::int64_t replicas) {
  return count > rank ? (count - rank - 1) / replicas + 1 : 0;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, DistributedSamplerOptions options)
    : dataset_size_(dataset_size), options_(options) {
  check(dataset_size_, options_);
  if (options_.drop_last) options_.remainder = Remainder::kDrop;
  if (size() == 0 && options_.remainder == Remainder::kDrop) {
    base::log(base::LogLevel::kWarning,
              concat("DistributedSampler: drop_last leaves no samples: the dataset has ",
                     dataset_size_, " for ", options_.num_replicas, " ranks"));
  }
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0)
    throw UsageError(concat("DistributedSampler: epoch is ", epoch), "count epochs from 0");
  if (started_ || epoch != epoch_) start_ = 0;
  epoch_ = epoch;
  taken_ = 0;
  started_ = false;
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t left = dataset_size_ - start_;
  switch (options_.remainder) {
    case Remainder::kDrop:
      return left / options_.num_replicas;
    case Remainder::kUneven:
      return valid_size();
    case Remainder::kPad:
      break;
  }
  return dealt(left, 0, options_.num_replicas);
}

std::int64_t DistributedSampler::valid_size() const {
  const std::int64_t left = dataset_size_ - start_;
  if (options_.remainder == Remainder::kDrop) return left / options_.num_replicas;
  return dealt(left, options_.rank, options_.num_replicas);
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  at::Tensor shuffled;
  if (options_.shuffle) {
    // Python: g.manual_seed(seed + epoch); torch.randperm(N, generator=g). The sum wraps as
    // unsigned.
    const auto seed =
        static_cast<std::uint64_t>(options_.seed) + static_cast<std::uint64_t>(epoch_);
    shuffled = at::randperm(dataset_size_, at::detail::createCPUGenerator(seed), at::kLong);
  }
  const auto* const order = options_.shuffle ? shuffled.const_data_ptr<std::int64_t>() : nullptr;
  std::int64_t position = start_ + options_.rank;
  for (auto& index : mine) {
    // Padding starts over at the head of the order.
    const std::int64_t at = position % dataset_size_;
    index = order == nullptr ? at : order[at];
    position += options_.num_replicas;
  }
  return mine;
}

SamplerState DistributedSampler::state() const {
  if (started_ && taken_ >= size()) return {options_.seed, epoch_ + 1, 0};
  return {options_.seed, epoch_, std::min(dataset_size_, start_ + taken_ * options_.num_replicas)};
}

void DistributedSampler::load_state(const SamplerState& state) {
  if (state.epoch < 0 || state.consumed < 0 || state.consumed > dataset_size_) {
    throw UsageError(
        concat("DistributedSampler: the saved state has epoch ", state.epoch, " and ",
               state.consumed, " samples consumed, but the dataset has ", dataset_size_),
        "load a state that was saved with this dataset");
  }
  options_.seed = state.seed;
  epoch_ = state.epoch;
  start_ = state.consumed;
  taken_ = 0;
  started_ = false;
}

void DistributedSampler::start_pass() {
  if (started_) set_epoch(epoch_ + 1);
  started_ = true;
}

void DistributedSampler::advance(std::int64_t samples) {
  if (samples < 0 || samples > size() - taken_) {
    throw UsageError(concat("DistributedSampler: advance by ", samples, ", but ", size() - taken_,
                            " samples are left in this pass"));
  }
  taken_ += samples;
}

}  // namespace lockstep
