#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/backends/shm/kernels.h"
#include "host/turns.h"

namespace lockstep::comm::shm {

/// Collectives over shared memory, on plain bytes. Each blocks until this rank's result is there
/// and its input may be overwritten. `Turns::begin` comes before each; what `Turns::take` throws
/// comes out of each.
///
/// Data that lie in the segment on every rank are read, and results written, where they are. All
/// else goes through two stages a rank, in chunks: while one stage is read, the other is filled.
/// Steps and bytes of each: docs/collectives.md.
class Collectives {
 public:
  explicit Collectives(std::shared_ptr<host::Turns> turns);

  host::Turns& turns() { return *turns_; }

  void all_reduce(void* data, std::size_t count, Dtype dtype, Op op);

  /// Only root's `data` receives the result; the others' keep what they hold.
  void reduce(void* data, std::size_t count, Dtype dtype, Op op, int root);

  void broadcast(void* data, std::size_t bytes, int root);

  /// `output` holds the inputs of all ranks, `bytes` each.
  void all_gather(void* output, const void* input, std::size_t bytes);

  /// `input` holds a part of `count` elements for each rank.
  void reduce_scatter(void* output, const void* input, std::size_t count, Dtype dtype, Op op);

  /// Parts lie one after the other, of as many bytes as the lists say. Throws MismatchError on
  /// every rank when one sends another what it does not expect.
  void all_to_all(void* output, const void* input, std::span<const std::size_t> output_bytes,
                  std::span<const std::size_t> input_bytes);

  /// `outputs`: one a rank on root, none elsewhere.
  void gather(std::span<void* const> outputs, const void* input, std::size_t bytes, int root);

  /// `inputs`: one a rank on root, none elsewhere.
  void scatter(void* output, std::span<const void* const> inputs, std::size_t bytes, int root);

  void barrier() { turns_->take(); }

 private:
  using Bytes = std::byte*;

  /// Where `reduce_to` writes: on one rank, or on all.
  static constexpr int kEveryone = -1;
  void reduce_to(int receiver, void* data, std::size_t count, Dtype dtype, Op op);
  void reduce_small(int receiver, Bytes data, std::size_t count, std::size_t element,
                    Kernel kernel);
  void reduce_in_place(int receiver, std::size_t count, std::size_t element, Kernel kernel);
  void reduce_staged(int receiver, Bytes data, std::size_t count, std::size_t element,
                     Kernel kernel);

  /// The stage that nobody reads now.
  Bytes next_stage();
  /// Shows the stage last taken, and waits until all show theirs.
  void show_stage();
  Bytes shown(int rank) const;

  /// Tells where this rank's data lie, and learns the others'; true when all are in the segment.
  bool all_in_place(const void* data, std::size_t bytes);

  const std::shared_ptr<host::Turns> turns_;
  const host::Segment& segment_;
  const int rank_;
  const int size_;
  int stage_ = 0;                    ///< which of the two was taken last
  std::vector<const void*> inputs_;  ///< of a kernel; here to be allocated once
  std::vector<void*> outputs_;
};

std::size_t size_of(Dtype dtype);

}  // namespace lockstep::comm::shm
