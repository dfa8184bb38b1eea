#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "comm/backends/shm/kernels.h"

namespace lockstep::comm::shm {
namespace {

template <class T>
std::vector<T> combined(Kernel kernel, std::vector<std::vector<T>> inputs) {
  std::vector<T> output(inputs.front().size());
  std::vector<const void*> from;
  for (const auto& input : inputs) from.push_back(input.data());
  void* to[] = {output.data()};
  kernel(from.data(), static_cast<int>(from.size()), to, 1, output.size());
  return output;
}

/// The value of a float16, by its definition.
double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

bool same(std::uint16_t a, std::uint16_t b, int nan_above) {
  const bool a_nan = (a & 0x7fff) > nan_above, b_nan = (b & 0x7fff) > nan_above;
  return a_nan || b_nan ? a_nan && b_nan : a == b;
}

/// The float16 nearest to `value`, to even where two are: found by looking among all.
std::uint16_t nearest_half(double value) {
  std::uint16_t low = 0, high = 0x7c00;  // positive ones are ordered as their bits
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520) return static_cast<std::uint16_t>(0x7c00 | (value < 0 ? 0x8000 : 0));
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of_half(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value_of_half(low);
  const double above = (high == 0x7c00 ? 65536 : value_of_half(high)) - magnitude;
  const std::uint16_t nearest = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(nearest | (std::signbit(value) ? 0x8000 : 0));
}

}  // namespace

TEST(ShmKernelsTest, EveryFloat16IsReadAndWrittenBack) {
  std::vector<std::uint16_t> all(65536), zeros(65536, 0x8000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto result = combined<std::uint16_t>(find_kernel(Dtype::kFloat16, Op::kSum), {all, zeros});
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_TRUE(same(result[i], all[i], 0x7c00)) << std::hex << i << " became " << result[i];
}

TEST(ShmKernelsTest, Float16SumsRoundOnceToNearestEven) {
  std::mt19937 random(3);
  std::vector<std::vector<std::uint16_t>> inputs(3, std::vector<std::uint16_t>(20000));
  for (auto& input : inputs)
    for (auto& value : input) value = static_cast<std::uint16_t>(random());
  const auto result = combined<std::uint16_t>(find_kernel(Dtype::kFloat16, Op::kSum), inputs);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float sum = static_cast<float>(value_of_half(inputs[0][i])) +
                      static_cast<float>(value_of_half(inputs[1][i])) +
                      static_cast<float>(value_of_half(inputs[2][i]));
    ASSERT_TRUE(same(result[i], nearest_half(sum), 0x7c00)) << sum << " became " << result[i];
  }
}

TEST(ShmKernelsTest, Bfloat16SumsRoundToNearestEven) {
  std::mt19937 random(4);
  std::vector<std::vector<std::uint16_t>> inputs(2, std::vector<std::uint16_t>(20000));
  for (auto& input : inputs)
    for (auto& value : input) value = static_cast<std::uint16_t>(random());
  const auto result = combined<std::uint16_t>(find_kernel(Dtype::kBfloat16, Op::kSum), inputs);
  const auto widen = [](std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  };
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double sum = widen(inputs[0][i]) + widen(inputs[1][i]);
    const float got = widen(result[i]);
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(got));
      continue;
    }
    // No neighbour is nearer.
    for (const int step : {-1, 1}) {
      const float neighbour = widen(static_cast<std::uint16_t>(result[i] + step));
      if (std::isfinite(neighbour) && std::isfinite(got)) {
        const double distance = std::fabs(got - sum), other = std::fabs(neighbour - sum);
        ASSERT_TRUE(distance < other || (distance == other && result[i] % 2 == 0)) << sum;
      }
    }
  }
}

TEST(ShmKernelsTest, IntegersWrapAndAveragesRoundTowardsZero) {
  EXPECT_EQ(combined<std::uint8_t>(find_kernel(Dtype::kUint8, Op::kSum), {{200}, {200}})[0], 144);
  EXPECT_EQ(combined<std::int32_t>(find_kernel(Dtype::kInt32, Op::kSum), {{2147483647}, {1}})[0],
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(
      combined<std::uint16_t>(find_kernel(Dtype::kUint16, Op::kProduct), {{65535}, {65535}})[0], 1);
  EXPECT_EQ(combined<std::int64_t>(find_kernel(Dtype::kInt64, Op::kAvg), {{-4}, {1}})[0], -1);
}

TEST(ShmKernelsTest, ExtremesKeepNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Op op : {Op::kMin, Op::kMax}) {
    const auto result =
        combined<float>(find_kernel(Dtype::kFloat32, op), {{nan, 1, 2}, {1, nan, 2}});
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
    EXPECT_EQ(result[2], 2);
  }
}

TEST(ShmKernelsTest, WhatHasNoMeaningHasNoKernel) {
  EXPECT_EQ(find_kernel(Dtype::kFloat32, Op::kBitAnd), nullptr);
  EXPECT_EQ(find_kernel(Dtype::kBool, Op::kAvg), nullptr);
}

TEST(ShmKernelsTest, EveryProcessorGivesTheSameBits) {
  std::mt19937 random(5);
  for (int type = 0; type <= static_cast<int>(Dtype::kFloat64); ++type) {
    for (int op = 0; op <= static_cast<int>(Op::kBitXor); ++op) {
      const Kernel chosen = find_kernel(static_cast<Dtype>(type), static_cast<Op>(op));
      const Kernel plain = baseline::find_kernel(static_cast<Dtype>(type), static_cast<Op>(op));
      ASSERT_EQ(chosen == nullptr, plain == nullptr);
      if (chosen == nullptr) continue;
      for (const int inputs : {2, 3}) {
        std::vector<std::vector<std::uint64_t>> data(static_cast<std::size_t>(inputs),
                                                     std::vector<std::uint64_t>(517));
        for (auto& input : data)
          // Without the exponents' highest bit: finite in every dtype, for NaNs are not all alike.
          for (auto& word : input)
            word = (random() + (std::uint64_t{random()} << 32)) & 0xbfffbfffbfffbfff;
        std::vector<std::vector<std::uint64_t>> results(4, std::vector<std::uint64_t>(517));
        std::vector<const void*> from;
        for (const auto& input : data) from.push_back(input.data());
        // An odd count, with the elements behind it untouched; two outputs, as in place.
        void* to_chosen[] = {results[0].data(), results[1].data()};
        void* to_plain[] = {results[2].data(), results[3].data()};
        chosen(from.data(), inputs, to_chosen, 2, 509);
        plain(from.data(), inputs, to_plain, 2, 509);
        ASSERT_EQ(results[0], results[2]) << type << " " << op << " of " << inputs;
        ASSERT_EQ(results[0], results[1]);
      }
    }
  }
}

}  // namespace lockstep::comm::shm
