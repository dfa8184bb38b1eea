/// Damaged containers and pickles, for a bounded time, from fixed seeds: an error or a result,
/// never more. Run it under the sanitizers too.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "base/deadline.h"
#include "base/file.h"
#include "checkpoint/pickle.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/zip_reader.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;
using base::Deadline;

std::vector<Bytes> golden_files() {
  std::set<std::filesystem::path> paths;  // in an order that every machine has
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_GOLDEN))
    paths.insert(entry.path());
  std::vector<Bytes> files;
  for (const auto& path : paths) files.push_back(base::read_file(path));
  return files;
}

Bytes pickle_of(const Bytes& file) {
  const ZipReader zip(memory_source(file));
  const auto& root = zip.entries().front().name;
  return zip.read(*zip.find(root.substr(0, root.find('/')) + "/data.pkl"), file.size());
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  Bytes mutate(Bytes bytes) {
    const std::size_t times = 1 + below(4);
    for (std::size_t time = 0; time < times && !bytes.empty(); ++time) mutate_once(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void mutate_once(Bytes& bytes) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(16, bytes.size() - at));
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        bytes[at] ^= std::byte{1} << below(8);
        break;
      case 1:
        std::fill_n(from, length, below(2) == 0 ? std::byte{0} : std::byte{0xff});
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(from, from + static_cast<std::ptrdiff_t>(length));
        break;
      default:
        const Bytes piece(from, from + static_cast<std::ptrdiff_t>(length));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())),
                     piece.begin(), piece.end());
    }
  }

  std::mt19937 random_;
};

// Reads mutations of `seeds` until the time is up; returns how many were refused.
std::size_t fuzz(const std::vector<Bytes>& seeds, unsigned seed,
                 const std::function<void(const Bytes&)>& read) {
  Mutator mutator(seed);
  std::size_t refused = 0;
  const auto deadline = Deadline::in(std::chrono::milliseconds(700));
  for (std::size_t round = 0; !deadline.expired(); ++round) {
    try {
      read(mutator.mutate(seeds[round % seeds.size()]));
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  return refused;
}

}  // namespace

TEST(FuzzTest, Containers) {
  const auto refused = fuzz(golden_files(), 1, [](const Bytes& bytes) {
    const ZipReader zip(memory_source(bytes));
    for (const auto& entry : zip.entries()) zip.read(entry, bytes.size());
  });
  EXPECT_GT(refused, 100u);
}

TEST(FuzzTest, Pickles) {
  std::vector<Bytes> pickles;
  for (const Bytes& file : golden_files()) {
    if (file.size() > 4 && file[0] == std::byte{'P'}) pickles.push_back(pickle_of(file));
  }
  ASSERT_GT(pickles.size(), 5u);
  const auto refused = fuzz(pickles, 2, [](const Bytes& bytes) {
    const auto pickle =
        read_pickle(bytes, [](std::string_view name) { return name.starts_with("torch."); });
    EXPECT_LE(pickle.nodes.size(), bytes.size());
    EXPECT_FALSE(describe(*pickle.root).empty());
  });
  EXPECT_GT(refused, 100u);
}

TEST(FuzzTest, SafetensorsHeaders) {
  const std::string text =
      safetensors_header_text({.entries = {{"fc1.weight", "F32", {2, 3}, 0, 24},
                                           {"fc1.bias", "BF16", {2}, 24, 28},
                                           {"empty", "U8", {0}, 28, 28}},
                               .checksum = "0123abcd"});
  const auto bytes = std::as_bytes(std::span(text));
  const auto refused = fuzz({Bytes(bytes.begin(), bytes.end())}, 3, [](const Bytes& mutated) {
    const auto header = parse_safetensors_header(
        {reinterpret_cast<const char*>(mutated.data()), mutated.size()}, 28);
    for (const auto& entry : header.entries) EXPECT_LE(entry.end, 28u);
  });
  EXPECT_GT(refused, 100u);
}

}  // namespace lockstep::checkpoint
