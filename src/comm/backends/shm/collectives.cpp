#include "comm/backends/shm/collectives.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "lockstep/error.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kStageBytes = host::Table::kStageBytes;
/// Up to this many bytes of all ranks together, each rank computes the whole result: one turn.
constexpr std::size_t kSmallBytes = std::size_t{16} << 10;

std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// `count` elements cut into a part for each rank, at cache lines.
struct Parts {
  Parts(std::size_t elements, int ranks, std::size_t element_bytes)
      : count(elements),
        part(
            divide_up(divide_up(elements, static_cast<std::size_t>(ranks)) * element_bytes, kLine) *
            kLine / element_bytes) {}

  std::size_t begin(int rank) const {
    return std::min(count, part * static_cast<std::size_t>(rank));
  }
  std::size_t length(int rank) const { return begin(rank + 1) - begin(rank); }

  std::size_t count;
  std::size_t part;
};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUint8:
    case Dtype::kInt8:
      return 1;
    case Dtype::kUint16:
    case Dtype::kInt16:
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
      return 2;
    case Dtype::kUint32:
    case Dtype::kInt32:
    case Dtype::kFloat32:
      return 4;
    case Dtype::kUint64:
    case Dtype::kInt64:
    case Dtype::kFloat64:
      return 8;
  }
  return 0;
}

Collectives::Collectives(std::shared_ptr<host::Turns> turns)
    : turns_(std::move(turns)),
      segment_(turns_->table().segment()),
      rank_(turns_->rank()),
      size_(turns_->size()),
      inputs_(at(size_)),
      outputs_(at(size_)) {}

Collectives::Bytes Collectives::next_stage() {
  stage_ ^= 1;
  return turns_->table().stage(stage_);
}

void Collectives::show_stage() { turns_->take(segment_.place_of(turns_->table().stage(stage_))); }

Collectives::Bytes Collectives::shown(int rank) const {
  return segment_.at(turns_->place_of(rank));
}

bool Collectives::all_in_place(const void* data, std::size_t bytes) {
  turns_->take(segment_.holds(data, bytes) ? segment_.place_of(data) : host::Place{0});
  for (int rank = 0; rank < size_; ++rank)
    if (turns_->place_of(rank) == 0) return false;
  return true;
}

void Collectives::all_reduce(void* data, std::size_t count, Dtype dtype, Op op) {
  reduce_to(kEveryone, data, count, dtype, op);
}

void Collectives::reduce(void* data, std::size_t count, Dtype dtype, Op op, int root) {
  reduce_to(root, data, count, dtype, op);
}

void Collectives::reduce_to(int receiver, void* data, std::size_t count, Dtype dtype, Op op) {
  const Kernel kernel = find_kernel(dtype, op);
  const std::size_t element = size_of(dtype), bytes = count * element;
  if (bytes * at(size_) <= kSmallBytes)
    reduce_small(receiver, static_cast<Bytes>(data), count, element, kernel);
  else if (all_in_place(data, bytes))
    reduce_in_place(receiver, count, element, kernel);
  else
    reduce_staged(receiver, static_cast<Bytes>(data), count, element, kernel);
}

void Collectives::reduce_small(int receiver, Bytes data, std::size_t count, std::size_t element,
                               Kernel kernel) {
  copy_bytes(next_stage(), data, count * element);
  show_stage();
  if (receiver != kEveryone && receiver != rank_) return;
  for (int rank = 0; rank < size_; ++rank) inputs_[at(rank)] = shown(rank);
  outputs_[0] = data;
  kernel(inputs_.data(), size_, outputs_.data(), 1, count);
}

void Collectives::reduce_in_place(int receiver, std::size_t count, std::size_t element,
                                  Kernel kernel) {
  const Parts parts(count, size_, element);
  const std::size_t offset = parts.begin(rank_) * element;
  for (int rank = 0; rank < size_; ++rank) {
    outputs_[at(rank)] = shown(rank) + offset;
    inputs_[at(rank)] = outputs_[at(rank)];
  }
  const int outputs = receiver == kEveryone ? size_ : 1;
  if (receiver != kEveryone) outputs_[0] = outputs_[at(receiver)];
  kernel(inputs_.data(), size_, outputs_.data(), outputs, parts.length(rank_));
  turns_->take();
}

void Collectives::reduce_staged(int receiver, Bytes data, std::size_t count, std::size_t element,
                                Kernel kernel) {
  // A stage holds, of one chunk, the part that each rank is to reduce, and behind them this rank's
  // result for the chunk before.
  const std::size_t part_bytes = kStageBytes / at(size_ + 1) / kLine * kLine;
  const std::size_t chunk = part_bytes / element * at(size_);
  const std::size_t chunks = divide_up(count, chunk);
  const std::size_t result_at = part_bytes * at(size_);
  const bool receives = receiver == kEveryone || receiver == rank_;
  const auto parts_of = [&](std::size_t k) {
    return Parts(std::min(chunk, count - k * chunk), size_, element);
  };
  for (std::size_t k = 0; k <= chunks; ++k) {
    const Bytes stage = next_stage();
    if (k < chunks) {
      const Parts parts = parts_of(k);
      for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
          copy_bytes(stage + at(rank) * part_bytes,
                     data + (k * chunk + parts.begin(rank)) * element,
                     parts.length(rank) * element);
    }
    show_stage();
    if (k < chunks) {
      const Parts parts = parts_of(k);
      const Bytes own = data + (k * chunk + parts.begin(rank_)) * element;
      for (int rank = 0; rank < size_; ++rank)
        inputs_[at(rank)] = rank == rank_ ? own : shown(rank) + at(rank_) * part_bytes;
      // Into the other stage, shown next: all have come to this turn, so nobody reads it any more.
      outputs_[0] = turns_->table().stage(stage_ ^ 1) + result_at;
      outputs_[1] = own;
      kernel(inputs_.data(), size_, outputs_.data(), receives ? 2 : 1, parts.length(rank_));
    }
    if (k > 0 && receives) {
      const Parts parts = parts_of(k - 1);
      for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
          copy_bytes(data + ((k - 1) * chunk + parts.begin(rank)) * element,
                     shown(rank) + result_at, parts.length(rank) * element);
    }
  }
}

void Collectives::broadcast(void* data, std::size_t bytes, int root) {
  const auto target = static_cast<Bytes>(data);
  if (bytes > kStageBytes) {
    all_in_place(data, bytes);
    if (turns_->place_of(root) != 0) {
      if (rank_ != root) copy_bytes(target, shown(root), bytes);
      turns_->take();
      return;
    }
  }
  std::size_t done = 0;
  do {
    const std::size_t length = std::min(kStageBytes, bytes - done);
    const Bytes stage = next_stage();
    if (rank_ == root) copy_bytes(stage, target + done, length);
    show_stage();
    if (rank_ != root) copy_bytes(target + done, shown(root), length);
    done += length;
  } while (done < bytes);
}

void Collectives::all_gather(void* output, const void* input, std::size_t bytes) {
  const auto target = static_cast<Bytes>(output);
  const auto source = static_cast<const std::byte*>(input);
  copy_bytes(target + at(rank_) * bytes, source, bytes);
  if (bytes > kStageBytes && all_in_place(input, bytes)) {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) copy_bytes(target + at(rank) * bytes, shown(rank), bytes);
    turns_->take();
    return;
  }
  std::size_t done = 0;
  do {
    const std::size_t length = std::min(kStageBytes, bytes - done);
    copy_bytes(next_stage(), source + done, length);
    show_stage();
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) copy_bytes(target + at(rank) * bytes + done, shown(rank), length);
    done += length;
  } while (done < bytes);
}

void Collectives::reduce_scatter(void* output, const void* input, std::size_t count, Dtype dtype,
                                 Op op) {
  const Kernel kernel = find_kernel(dtype, op);
  const std::size_t element = size_of(dtype);
  const auto target = static_cast<Bytes>(output);
  const auto source = static_cast<const std::byte*>(input);
  const std::size_t slot_bytes = kStageBytes / at(size_) / kLine * kLine;
  const std::size_t slot = slot_bytes / element;
  const auto part_of = [&](int rank, std::size_t done) {
    return source + (at(rank) * count + done) * element;
  };
  if (count > slot && all_in_place(input, count * at(size_) * element)) {
    for (int rank = 0; rank < size_; ++rank)
      inputs_[at(rank)] = shown(rank) + at(rank_) * count * element;
    outputs_[0] = target;
    kernel(inputs_.data(), size_, outputs_.data(), 1, count);
    turns_->take();
    return;
  }
  std::size_t done = 0;
  do {
    const std::size_t length = std::min(slot, count - done);
    const Bytes stage = next_stage();
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_)
        copy_bytes(stage + at(rank) * slot_bytes, part_of(rank, done), length * element);
    show_stage();
    for (int rank = 0; rank < size_; ++rank)
      inputs_[at(rank)] = rank == rank_ ? static_cast<const void*>(part_of(rank, done))
                                        : shown(rank) + at(rank_) * slot_bytes;
    outputs_[0] = target + done * element;
    kernel(inputs_.data(), size_, outputs_.data(), 1, length);
    done += length;
  } while (done < count);
}

void Collectives::all_to_all(void* output, const void* input,
                             std::span<const std::size_t> output_bytes,
                             std::span<const std::size_t> input_bytes) {
  // First a table of what each rank sends to and expects from each.
  const std::size_t row = at(size_);
  auto* const table = reinterpret_cast<std::size_t*>(next_stage());
  std::copy(input_bytes.begin(), input_bytes.end(), table);
  std::copy(output_bytes.begin(), output_bytes.end(), table + row);
  show_stage();
  std::size_t longest = 0;
  for (int from = 0; from < size_; ++from) {
    const auto* const sends = reinterpret_cast<const std::size_t*>(shown(from));
    for (int to = 0; to < size_; ++to) {
      const auto* const expects = reinterpret_cast<const std::size_t*>(shown(to)) + row;
      if (sends[to] != expects[from])
        throw MismatchError(base::concat("rank ", from, " sends ", sends[to], " bytes to rank ", to,
                                         ", which expects ", expects[from]),
                            "output_rows of the one must be input_rows of the other");
      longest = std::max(longest, sends[to]);
    }
  }
  const std::size_t slot = kStageBytes / row / kLine * kLine;
  for (std::size_t done = 0; done < longest; done += slot) {
    const auto length_of = [&](std::size_t bytes) {
      return bytes > done ? std::min(slot, bytes - done) : 0;
    };
    const Bytes stage = next_stage();
    const auto* source = static_cast<const std::byte*>(input);
    for (std::size_t rank = 0; rank < row; source += input_bytes[rank++])
      copy_bytes(stage + rank * slot, source + done, length_of(input_bytes[rank]));
    show_stage();
    auto* target = static_cast<Bytes>(output);
    for (std::size_t rank = 0; rank < row; target += output_bytes[rank++])
      copy_bytes(target + done, shown(static_cast<int>(rank)) + at(rank_) * slot,
                 length_of(output_bytes[rank]));
  }
}

void Collectives::gather(std::span<void* const> outputs, const void* input, std::size_t bytes,
                         int root) {
  const auto source = static_cast<const std::byte*>(input);
  std::size_t done = 0;
  do {
    const std::size_t length = std::min(kStageBytes, bytes - done);
    const Bytes stage = next_stage();
    if (rank_ != root) copy_bytes(stage, source + done, length);
    show_stage();
    for (int rank = 0; rank_ == root && rank < size_; ++rank)
      copy_bytes(static_cast<Bytes>(outputs[at(rank)]) + done,
                 rank == root ? source + done : shown(rank), length);
    done += length;
  } while (done < bytes);
}

void Collectives::scatter(void* output, std::span<const void* const> inputs, std::size_t bytes,
                          int root) {
  const std::size_t slot = kStageBytes / at(size_) / kLine * kLine;
  const auto target = static_cast<Bytes>(output);
  std::size_t done = 0;
  do {
    const std::size_t length = std::min(slot, bytes - done);
    const Bytes stage = next_stage();
    for (int rank = 0; rank_ == root && rank < size_; ++rank)
      copy_bytes(stage + at(rank) * slot, static_cast<const std::byte*>(inputs[at(rank)]) + done,
                 length);
    show_stage();
    copy_bytes(target + done, shown(root) + at(rank_) * slot, length);
    done += length;
  } while (done < bytes);
}

}  // namespace lockstep::comm::shm
