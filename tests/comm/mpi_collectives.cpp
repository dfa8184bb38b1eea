// What the ranks of mpi_test.cpp do: every collective, dtype and size against the exact values.
#include <torch/torch.h>

#include <cstdio>
#include <map>

#include "base/concat.h"
#include "lockstep/comm.h"
#include "support/reexec.h"

namespace lockstep::test {
namespace {

using base::concat;

constexpr std::int64_t kSizes[] = {0, 1, 7, 1023, 1024, 1 << 20};
constexpr at::ScalarType kNumbers[] = {at::kFloat, at::kDouble, at::kHalf,   at::kBFloat16,
                                       at::kByte,  at::kChar,   at::kShort,  at::kInt,
                                       at::kLong,  at::kUInt16, at::kUInt32, at::kUInt64};

bool is_large(std::int64_t count) { return count > 100'000; }

/// The dtypes to try at this size; one of each kind where it costs.
std::vector<at::ScalarType> numbers(std::int64_t count) {
  if (is_large(count)) return {at::kFloat, at::kBFloat16, at::kLong};
  return {std::begin(kNumbers), std::end(kNumbers)};
}

/// Distinct by rank and index; small enough that every result is exact in every dtype.
at::Tensor data_of(int rank, std::int64_t count, std::int64_t range) {
  return (at::arange(count, at::kLong) * 3 + rank * 7) % range + 1;
}

void expect_equal(const at::Tensor& found, const at::Tensor& exact, const std::string& what) {
  // Both by way of the dtype under test: integers wrap around.
  const at::Tensor wanted = exact.to(found.scalar_type());
  const bool real = found.is_floating_point() || found.is_complex();
  if (real ? at::equal(found, wanted) : at::equal(found.to(at::kLong), wanted.to(at::kLong)))
    return;
  throw std::runtime_error(
      concat("wrong: ", what, " of ", found.numel(), " ", found.scalar_type()));
}

at::Tensor fold(const std::vector<at::Tensor>& all, ReduceOp op) {
  at::Tensor result = all.front().clone();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const at::Tensor& next = all[rank];
    result = op == ReduceOp::kSum || op == ReduceOp::kAvg ? result + next
             : op == ReduceOp::kProduct                   ? result * next
             : op == ReduceOp::kMin                       ? at::minimum(result, next)
             : op == ReduceOp::kMax                       ? at::maximum(result, next)
             : op == ReduceOp::kBitAnd                    ? at::bitwise_and(result, next)
             : op == ReduceOp::kBitOr                     ? at::bitwise_or(result, next)
                                                          : at::bitwise_xor(result, next);
  }
  if (op != ReduceOp::kAvg) return result;
  return result.to(at::kDouble) / static_cast<double>(all.size());
}

const std::map<ReduceOp, const char*> kOps = {
    {ReduceOp::kSum, "sum"},  {ReduceOp::kAvg, "avg"},   {ReduceOp::kProduct, "product"},
    {ReduceOp::kMin, "min"},  {ReduceOp::kMax, "max"},   {ReduceOp::kBitAnd, "and"},
    {ReduceOp::kBitOr, "or"}, {ReduceOp::kBitXor, "xor"}};

bool applies(ReduceOp op, at::ScalarType dtype) {
  const bool bitwise = op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
  const bool real = at::isFloatingType(dtype);
  // An average of n ranks is exact in the two wider types; torch does not divide the newer ones.
  if (op == ReduceOp::kAvg) return dtype == at::kFloat || dtype == at::kDouble;
  return !bitwise || !real;
}

/// The three collectives that reduce, in one dtype.
void reduce_in_three_ways(Group& group, std::int64_t count, at::ScalarType dtype, ReduceOp op) {
  const int size = group.size(), rank = group.rank(), root = size - 1;
  const std::int64_t range = op == ReduceOp::kProduct ? 3 : 11;
  std::vector<at::Tensor> all, wide;
  for (int other = 0; other < size; ++other) {
    all.push_back(data_of(other, count, range));
    wide.push_back(data_of(other, count * size, range));
  }
  const auto self = static_cast<std::size_t>(rank);
  const at::Tensor exact = fold(all, op);
  const std::string what = concat(kOps.at(op), " in ");
  at::Tensor tensor = all[self].to(dtype, /*non_blocking=*/false, /*copy=*/true);
  group.all_reduce(tensor, op);
  expect_equal(tensor, exact, what + "all_reduce");
  tensor = all[self].to(dtype, /*non_blocking=*/false, /*copy=*/true);
  group.reduce(tensor, root, op);
  expect_equal(tensor, rank == root ? exact : all[self], what + "reduce");
  at::Tensor part = at::zeros({count}, dtype);
  group.reduce_scatter(part, wide[self].to(dtype), op);
  expect_equal(part, fold(wide, op).narrow(0, rank * count, count), what + "reduce_scatter");
}

void reduce_bools(Group& group) {
  const int size = group.size();
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < size; ++rank)
    all.push_back((at::arange(97) / (rank + 1)).to(at::kLong) % 2);
  for (const auto& [op, name] : kOps) {
    if (op == ReduceOp::kAvg) continue;
    at::Tensor tensor = all[static_cast<std::size_t>(group.rank())].to(at::kBool);
    group.all_reduce(tensor, op);
    // A sum of truths is true once one of them is.
    expect_equal(tensor.to(at::kLong), fold(all, op).to(at::kBool).to(at::kLong),
                 concat(name, " of bools"));
  }
}

void reduce_complex(Group& group) {
  const auto value = [](int rank) {
    return at::complex((at::arange(33) + rank).to(at::kDouble),
                       at::full({33}, 2.0 * rank, at::kDouble));
  };
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    at::Tensor exact = value(0);
    for (int rank = 1; rank < group.size(); ++rank) exact = exact + value(rank);
    at::Tensor tensor = value(group.rank()).to(dtype);
    group.all_reduce(tensor);
    expect_equal(tensor, exact, "a complex sum");
  }
}

const ChildProgram kReductions("reductions", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(60)});
  for (const std::int64_t count : kSizes)
    for (const at::ScalarType dtype : numbers(count))
      for (const auto& [op, name] : kOps)
        if (applies(op, dtype) && (op == ReduceOp::kSum || !is_large(count)))
          reduce_in_three_ways(world, count, dtype, op);
  reduce_bools(world);
  reduce_complex(world);
  // 2048 + 1 + 1 is 2050 when summed in float32; a sum in float16 stays at 2048.
  at::Tensor fine = at::full({5}, world.rank() == 0 ? 2048.0 : 1.0, at::kHalf);
  world.all_reduce(fine);
  if (world.size() == 3)
    expect_equal(fine, at::full({5}, 2050), "a float16 sum that needs float32");
  std::printf("rank %d is done\n", world.rank());
  return 0;
});

/// Any dtype's values travel as bytes: the numbers as they are, the others by conversion.
at::Tensor payload(int rank, std::int64_t count, at::ScalarType dtype) {
  return data_of(rank, count, 101).to(dtype);
}

void move_equal_parts(Group& group, std::int64_t count, at::ScalarType dtype) {
  const int size = group.size(), rank = group.rank(), root = size / 2;
  const auto of = [&](int other) { return payload(other, count, dtype); };
  at::Tensor tensor = of(rank);
  group.broadcast(tensor, root);
  expect_equal(tensor, of(root), "broadcast");

  std::vector<at::Tensor> all;
  for (int other = 0; other < size; ++other) all.push_back(of(other));
  at::Tensor gathered = at::zeros({size * count}, dtype);
  group.all_gather(gathered, of(rank));
  expect_equal(gathered, at::cat(all), "all_gather");
  // The input may lie where it will end up.
  gathered = at::zeros({size * count}, dtype);
  gathered.narrow(0, rank * count, count).copy_(of(rank));
  group.all_gather(gathered, gathered.narrow(0, rank * count, count));
  expect_equal(gathered, at::cat(all), "all_gather in place");

  std::vector<at::Tensor> collected;
  if (rank == root)
    for (int other = 0; other < size; ++other) collected.push_back(at::zeros({count}, dtype));
  group.gather(collected, of(rank), root);
  for (std::size_t other = 0; other < collected.size(); ++other)
    expect_equal(collected[other], all[other], "gather");
  at::Tensor dealt = at::zeros({count}, dtype);
  group.scatter(dealt, rank == root ? all : std::vector<at::Tensor>{}, root);
  expect_equal(dealt, of(rank), "scatter");

  std::vector<at::Tensor> crossing;
  for (int other = 0; other < size; ++other)
    crossing.push_back(payload(other * 10 + rank, count, dtype));
  std::vector<at::Tensor> outgoing;
  for (int other = 0; other < size; ++other)
    outgoing.push_back(payload(rank * 10 + other, count, dtype));
  at::Tensor exchanged = at::zeros({size * count}, dtype);
  group.all_to_all(exchanged, at::cat(outgoing));
  expect_equal(exchanged, at::cat(crossing), "all_to_all");
}

/// Rank r sends (r + other) % 3 rows to each other.
void move_uneven_parts(Group& group) {
  const int size = group.size(), rank = group.rank();
  const auto rows = [](int from, int to) -> std::int64_t { return (from + 2 * to) % 3; };
  const auto part = [&](int from, int to) {
    return at::full({rows(from, to), 4}, from * 10 + to, at::kInt);
  };
  std::vector<std::int64_t> out_rows, in_rows;
  std::vector<at::Tensor> out, in;
  for (int other = 0; other < size; ++other) {
    in_rows.push_back(rows(rank, other));
    in.push_back(part(rank, other));
    out_rows.push_back(rows(other, rank));
    out.push_back(part(other, rank));
  }
  at::Tensor exchanged = at::zeros_like(at::cat(out));
  group.all_to_all(exchanged, at::cat(in), out_rows, in_rows);
  expect_equal(exchanged, at::cat(out), "all_to_all of uneven rows");
}

/// Two messages to the next rank, the second tag received first.
void pass_on(Group& group, std::int64_t count, at::ScalarType dtype) {
  const int size = group.size(), rank = group.rank();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  std::vector<Work> sent;
  for (const int tag : {0, 7})
    sent.push_back(group.send(payload(rank + tag, count, dtype), next, tag, {.async_op = true}));
  for (const int tag : {7, 0}) {
    at::Tensor tensor = at::zeros({count}, dtype);
    group.recv(tensor, before, tag);
    expect_equal(tensor, payload(before + tag, count, dtype), "recv");
  }
  for (Work& work : sent) work.wait();
}

const ChildProgram kMovements("movements", [](int, char**) {
  Group world = init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(60)});
  for (const std::int64_t count : kSizes) {
    std::vector<at::ScalarType> dtypes = numbers(count);
    if (!is_large(count))
      dtypes.insert(dtypes.end(), {at::kBool, at::kComplexFloat, at::kComplexDouble});
    for (const at::ScalarType dtype : dtypes) {
      move_equal_parts(world, count, dtype);
      pass_on(world, count, dtype);
    }
  }
  move_uneven_parts(world);
  destroy_process_group();
  std::printf("rank %d is done\n", world.rank());
  return 0;
});

}  // namespace
}  // namespace lockstep::test
