#include "data/mnist_files.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "data/idx.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

using base::concat;

constexpr std::size_t kNamesShown = 12;

std::string list(std::vector<std::string> names) {
  if (names.empty()) return "nothing";
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) text += concat(" and ", names.size() - kNamesShown, " more");
  return text;
}

std::string contents(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string() + (entry->is_directory(error) ? "/" : ""));
  }
  if (error) return concat("cannot be read: ", error.message());
  return "holds " + list(std::move(names));
}

// The first that exists of the places where `what` of the split may lie.
fs::path find(const fs::path& folder, const std::string& stem, const std::string& what,
              int dimensions) {
  const std::string type = concat("idx", dimensions, "-ubyte");
  const std::string dashed = concat(stem, "-", what, "-", type);
  const std::string dotted = concat(stem, "-", what, ".", type);
  const std::vector<std::string> names = {dashed, dotted, dashed + ".gz", dotted + ".gz"};
  for (const fs::path& place : {folder, folder / "MNIST" / "raw"}) {
    for (const auto& name : names) {
      std::error_code ignored;
      if (fs::exists(place / name, ignored) && !fs::is_directory(place / name, ignored))
        return place / name;
    }
  }
  throw DataError(concat("no MNIST file '", stem, "-", what, "' in ", folder, ", which ",
                         contents(folder), "; tried ", list(names), ", there and in MNIST/raw"),
                  "give the folder that holds the four MNIST files");
}

void check_images(const IdxArray& images, const fs::path& path) {
  if (images.dims[0] == 0)
    throw DataError(concat(path, ": the dataset is empty: it holds 0 images"));
  if (images.dims[1] != kMnistSide || images.dims[2] != kMnistSide) {
    throw DataError(concat(path, ": images are ", images.dims[1], " x ", images.dims[2],
                           " pixels, MNIST's are ", kMnistSide, " x ", kMnistSide));
  }
}

void check_labels(const IdxArray& labels, const fs::path& path) {
  const auto values = labels.values.view();
  const auto wrong = std::find_if(values.begin(), values.end(),
                                  [](std::uint8_t label) { return label >= kMnistClasses; });
  if (wrong == values.end()) return;
  const auto item = static_cast<std::size_t>(wrong - values.begin());
  throw DataError(concat(path, ": label ", int{*wrong}, " of item ", item, " (offset ",
                         labels.offset + item, ") is not a digit from 0 to ", kMnistClasses - 1),
                  "the file is damaged: fetch it again");
}

}  // namespace

MnistFiles read_mnist_files(const fs::path& folder, const std::string& stem) {
  const fs::path images_path = find(folder, stem, "images", 3);
  const fs::path labels_path = find(folder, stem, "labels", 1);
  IdxArray images = read_idx(images_path, 3);
  check_images(images, images_path);
  IdxArray labels = read_idx(labels_path, 1);
  if (labels.dims[0] != images.dims[0]) {
    throw DataError(concat(images_path, " holds ", images.dims[0], " images, but ", labels_path,
                           " holds ", labels.dims[0], " labels"),
                    "take both files from the same set");
  }
  check_labels(labels, labels_path);
  return {images.dims[0], std::move(images.values), std::move(labels.values)};
}

}  // namespace lockstep::data
