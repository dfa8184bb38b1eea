#include <ATen/ATen.h>

#include "base/concat.h"
#include "lockstep/data.h"

namespace lockstep {
namespace {

using base::concat;

at::Tensor per_channel(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 1, 1});
}

}  // namespace

at::Tensor ToTensor::operator()(const at::Tensor& image) const {
  if (image.scalar_type() != at::kByte || image.dim() < 2 || image.dim() > 3) {
    throw UsageError(
        concat("ToTensor: image has type ", image.scalar_type(), " and shape ", image.sizes()),
        "give uint8 [H, W] or [H, W, C]");
  }
  const at::Tensor channels_first =
      image.dim() == 2 ? image.unsqueeze(0) : image.permute({2, 0, 1}).contiguous();
  return channels_first.to(at::kFloat).div_(255);
}

Normalize::Normalize(const std::vector<double>& means, const std::vector<double>& stds)
    : mean(per_channel(means)), std(per_channel(stds)) {
  if (means.empty() || means.size() != stds.size()) {
    throw UsageError(
        concat("Normalize: mean has ", means.size(), " values and std has ", stds.size()),
        "give each one value per channel");
  }
  if (std.eq(0).any().item<bool>()) {
    throw UsageError(concat("Normalize: std has a 0 as float32"),
                     "give the standard deviation of each channel");
  }
}

at::Tensor Normalize::operator()(const at::Tensor& image) const {
  if (!image.is_floating_point() || image.dim() < 3 ||
      (mean.size(0) != 1 && mean.size(0) != image.size(-3))) {
    throw UsageError(concat("Normalize: image has type ", image.scalar_type(), " and shape ",
                            image.sizes(), ", mean and std have ", mean.size(0), " channels"),
                     "put ToTensor before it; give one mean and std per channel");
  }
  return image.sub(mean.to(image.scalar_type())).div_(std.to(image.scalar_type()));
}

}  // namespace lockstep
