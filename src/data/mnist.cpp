#include <ATen/ATen.h>

#include <algorithm>

#include "base/concat.h"
#include "data/mnist_files.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using base::concat;

constexpr std::int64_t kByteValues = 256;

at::Tensor apply(const Transforms& transforms, at::Tensor image) {
  for (const auto& transform : transforms) image = transform(std::move(image));
  return image;
}

// ToTensor and Normalize treat each pixel of a grey image alone, so that 256 results are all there
// are. They are found by the transforms themselves: a table look-up gives the same bits.
std::vector<float> table_of(const Transforms& transforms) {
  if (transforms.empty() || transforms[0].target<ToTensor>() == nullptr) return {};
  const auto is_normalize = [](const Transform& transform) {
    return transform.target<Normalize>() != nullptr;
  };
  if (!std::all_of(transforms.begin() + 1, transforms.end(), is_normalize)) return {};
  const at::Tensor results =
      apply(transforms, at::arange(kByteValues, at::kByte).view({1, kByteValues}));
  const auto* const begin = results.const_data_ptr<float>();
  return {begin, begin + kByteValues};
}

// Rows come from all over the images: without fetching ahead, waiting for memory takes more than
// half the time.
constexpr std::size_t kFetchAhead = 2;
constexpr std::int64_t kCacheLine = 64;

void fetch(const std::uint8_t* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kCacheLine) __builtin_prefetch(from + i);
}

void look_up(const float* table, const std::uint8_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

at::Tensor tensor_over(const data::SharedBytes& bytes, at::IntArrayRef shape) {
  return at::from_blob(
      bytes.data.get(), shape, [held = bytes.data](void*) {}, at::kByte);
}

}  // namespace

Mnist::Mnist(at::Tensor images, at::Tensor labels, Transforms transforms)
    : images_(std::move(images)), labels_(std::move(labels)), transforms_(std::move(transforms)) {
  if (images_.scalar_type() != at::kByte || images_.dim() != 3 || !images_.device().is_cpu()) {
    throw UsageError(concat("Mnist: images have type ", images_.scalar_type(), " and shape ",
                            images_.sizes(), " on ", images_.device()),
                     "give uint8 [N, H, W] in main memory");
  }
  if (labels_.scalar_type() != at::kLong || labels_.dim() != 1 ||
      labels_.size(0) != images_.size(0)) {
    throw UsageError(concat("Mnist: labels have type ", labels_.scalar_type(), " and shape ",
                            labels_.sizes(), " for ", images_.size(0), " images"),
                     "give int64 [N], one for each image");
  }
  images_ = images_.contiguous();
  labels_ = labels_.contiguous();
  table_ = table_of(transforms_);
}

Example Mnist::get(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw UsageError(concat("Mnist: index is ", index),
                     concat("there are ", size(), " images, counted from 0"));
  }
  return {apply(transforms_, images_[index]), labels_[index]};
}

Example Mnist::get_batch(std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  at::Tensor target = at::empty({count}, at::kLong);
  auto* const targets = target.mutable_data_ptr<std::int64_t>();
  const auto* const labels = labels_.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t index = indices[static_cast<std::size_t>(row)];
    if (index < 0 || index >= size()) {
      throw UsageError(concat("Mnist: index is ", index),
                       concat("there are ", size(), " images, counted from 0"));
    }
    targets[row] = labels[index];
  }
  if (table_.empty()) {
    std::vector<at::Tensor> images;
    for (const std::int64_t index : indices) images.push_back(apply(transforms_, images_[index]));
    return {at::stack(images), target};
  }
  const std::int64_t pixels = images_.size(1) * images_.size(2);
  at::Tensor data = at::empty({count, 1, images_.size(1), images_.size(2)}, at::kFloat);
  auto* to = data.mutable_data_ptr<float>();
  const auto* const from = images_.const_data_ptr<std::uint8_t>();
  for (std::size_t row = 0; row < indices.size(); ++row) {
    if (row + kFetchAhead < indices.size())
      fetch(from + indices[row + kFetchAhead] * pixels, pixels);
    look_up(table_.data(), from + indices[row] * pixels, pixels, to);
    to += pixels;
  }
  return {data, target};
}

Mnist load_mnist(const std::filesystem::path& folder, MnistSplit split, Transforms transforms) {
  const auto files = data::read_mnist_files(folder, split == MnistSplit::kTrain ? "train" : "t10k");
  return {tensor_over(files.images, {files.count, data::kMnistSide, data::kMnistSide}),
          tensor_over(files.labels, {files.count}).to(at::kLong), std::move(transforms)};
}

}  // namespace lockstep
