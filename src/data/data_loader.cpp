#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "data/ordered_prefetch.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using base::concat;

void check(const DataLoaderOptions& options) {
  const auto refuse = [](const char* name, std::int64_t value, const char* remedy) {
    throw UsageError(concat("DataLoader: ", name, " is ", value), remedy);
  };
  if (options.batch_size < 1) refuse("batch_size", options.batch_size, "give at least 1");
  if (options.num_workers < 0)
    refuse("num_workers", options.num_workers, "give a number of threads, or 0 for none");
  if (options.prefetch_factor < 1)
    refuse("prefetch_factor", options.prefetch_factor, "give at least 1");
}

}  // namespace

struct DataLoader::Impl {
  Source source;
  std::optional<DistributedSampler> in_order;
  DistributedSampler* sampler;
  DataLoaderOptions options;
  std::weak_ptr<Iterator::Pass> pass;

  std::int64_t batches() const {
    const std::int64_t samples = sampler->size();
    return options.drop_last ? samples / options.batch_size
                             : (samples + options.batch_size - 1) / options.batch_size;
  }
};

// One time through the sampler's order. What the workers use is constant once they run.
struct DataLoader::Iterator::Pass {
  explicit Pass(std::shared_ptr<Impl> loader)
      : loader_(std::move(loader)),
        indices_(loader_->sampler->indices()),
        valid_(loader_->sampler->valid_size()),
        batches_(loader_->batches()) {
    const auto& options = loader_->options;
    if (options.num_workers > 0) {
      workers_.emplace(batches_, options.num_workers, options.num_workers * options.prefetch_factor,
                       [this](std::int64_t number) { return make(number); });
    }
  }

  // Makes the next batch the current one; false when there is none.
  bool advance() {
    if (ended_ || next_ == batches_) {
      // Samples that drop_last leaves out are done with, too.
      if (!ended_) count_used(static_cast<std::int64_t>(indices_.size()));
      return false;
    }
    current_ = Batch{};
    ended_ = true;  // should the dataset throw
    current_ = workers_ ? workers_->next() : make(next_);
    ended_ = false;
    ++next_;
    count_used(next_ == batches_ ? static_cast<std::int64_t>(indices_.size())
                                 : next_ * loader_->options.batch_size);
    return true;
  }

  // A newer pass has begun: the threads stop, the sampler is its.
  void end() {
    ended_ = true;
    workers_.reset();
  }

  Batch& current() { return current_; }

 private:
  Batch make(std::int64_t number) const {
    const std::int64_t begin = number * loader_->options.batch_size;
    const auto all = std::span(indices_);
    const auto mine = all.subspan(
        static_cast<std::size_t>(begin),
        static_cast<std::size_t>(std::min(loader_->options.batch_size, std::ssize(all) - begin)));
    Example example = loader_->source.read(mine);
    at::Tensor valid = at::ones({std::ssize(mine)}, at::kBool);
    if (begin + std::ssize(mine) > valid_)
      valid.slice(0, std::max<std::int64_t>(valid_ - begin, 0)).zero_();
    return {std::move(example.data), std::move(example.target), std::move(valid)};
  }

  void count_used(std::int64_t samples) {
    loader_->sampler->advance(samples - used_);
    used_ = samples;
  }

  const std::shared_ptr<Impl> loader_;
  const std::vector<std::int64_t> indices_;
  const std::int64_t valid_;
  const std::int64_t batches_;
  Batch current_;
  std::int64_t next_ = 0;
  std::int64_t used_ = 0;
  bool ended_ = false;
  std::optional<data::OrderedPrefetch<Batch>>
      workers_;  // last: stopped before what they read is gone
};

DataLoader::DataLoader(Source source, DistributedSampler* sampler, DataLoaderOptions options) {
  check(options);
  if (sampler != nullptr && sampler->dataset_size() != source.size) {
    throw UsageError(concat("DataLoader: the dataset has ", source.size,
                            " samples, but its sampler was made for ", sampler->dataset_size()),
                     "make the sampler with dataset.size()");
  }
  impl_ = std::make_shared<Impl>(Impl{std::move(source), std::nullopt, sampler, options, {}});
  if (sampler == nullptr)
    impl_->sampler =
        &impl_->in_order.emplace(impl_->source.size, DistributedSamplerOptions{.shuffle = false});
}

DataLoader::Iterator DataLoader::begin() {
  if (const auto previous = impl_->pass.lock()) previous->end();
  impl_->sampler->start_pass();
  Iterator iterator;
  iterator.pass_ = std::make_shared<Iterator::Pass>(impl_);
  impl_->pass = iterator.pass_;
  return ++iterator;
}

std::int64_t DataLoader::size() const { return impl_->batches(); }

Example DataLoader::stack(const std::vector<Example>& examples) {
  std::vector<at::Tensor> data;
  std::vector<at::Tensor> targets;
  for (const auto& example : examples) {
    data.push_back(example.data);
    targets.push_back(example.target);
  }
  return {at::stack(data), at::stack(targets)};
}

Batch& DataLoader::Iterator::operator*() const { return pass_->current(); }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (!pass_->advance()) pass_.reset();
  return *this;
}

}  // namespace lockstep
