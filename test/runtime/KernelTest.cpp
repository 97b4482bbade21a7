//===-- KernelTest.cpp - Conversions and kernels, bit by bit --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/FloatEnvironment.h"
#include "cpu/Kernels.h"
#include "cpu/Layout.h"
#include "tandem/Runtime/tandem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace tandem;

/// The sets that this processor can run.
static std::vector<const Kernels *> kernelSets() {
  std::vector<const Kernels *> sets{&baselineKernels};
#if defined(TANDEM_RUNTIME_X86)
  if (__builtin_cpu_supports("avx2"))
    sets.push_back(&avx2Kernels);
#endif
  return sets;
}

static uint32_t bitsOf(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

/// The value of an f16 or bf16, from its definition.
static double valueOf(uint16_t bits, int exponentBits, int fractionBits) {
  int bias = (1 << (exponentBits - 1)) - 1;
  int exponent = (bits >> fractionBits) & ((1 << exponentBits) - 1);
  int fraction = bits & ((1 << fractionBits) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return fraction ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - fractionBits);
  return sign * std::ldexp((1 << fractionBits) + fraction,
                           exponent - bias - fractionBits);
}

/// Rounds by search among all values of the type: slow and plain.
class SlowRounder {
public:
  SlowRounder(int exponentBits, int fractionBits)
      : infinity(uint16_t(((1 << exponentBits) - 1) << fractionBits)) {
    for (uint32_t b = 0; b <= infinity; ++b)
      values.push_back(valueOf(uint16_t(b), exponentBits, fractionBits));
    // Where the next value would be, for rounding to infinity.
    values[infinity] = 2 * values[infinity - 1] - values[infinity - 2];
    canonical = uint16_t(infinity | 1 << (fractionBits - 1));
  }

  uint16_t round(double x) const {
    if (std::isnan(x))
      return canonical;
    uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    double m = std::fabs(x);
    if (m >= values[infinity])
      return sign | infinity;
    size_t high =
        std::upper_bound(values.begin(), values.end(), m) - values.begin();
    size_t low = high - 1;
    double down = m - values[low], up = values[high] - m;
    bool takeHigh = up < down || (up == down && (high & 1) == 0);
    return sign | uint16_t(takeHigh ? high : low);
  }

private:
  uint16_t infinity, canonical;
  std::vector<double> values;
};

/// rn(a + b) over a sum of two ranks reaches both conversions: with b = -0 the
/// sum is a itself.
template <typename T>
static std::vector<T> sumOf(const Kernels &kernels, int dtype,
                            const std::vector<T> &a, const std::vector<T> &b) {
  std::vector<T> out(a.size());
  const void *sources[2] = {a.data(), b.data()};
  kernels.reduce[dtype](TANDEM_REDUCTION_SUM, sources, 2, out.data(),
                        static_cast<int64_t>(a.size()));
  return out;
}

TEST(Kernel, EveryHalfSurvivesWideningAndRounding) {
  for (const Kernels *kernels : kernelSets()) {
    for (int dtype : {TANDEM_DTYPE_F16, TANDEM_DTYPE_BF16}) {
      std::vector<uint16_t> all(65536), minusZero(65536, 0x8000);
      for (uint32_t b = 0; b < 65536; ++b)
        all[b] = uint16_t(b);
      auto out = sumOf(*kernels, dtype, all, minusZero);
      int fractionBits = dtype == TANDEM_DTYPE_F16 ? 10 : 7;
      uint16_t infinity = dtype == TANDEM_DTYPE_F16 ? 0x7c00 : 0x7f80;
      uint16_t canonical = uint16_t(infinity | 1 << (fractionBits - 1));
      for (uint32_t b = 0; b < 65536; ++b) {
        bool nan = (b & 0x7fff) > infinity;
        ASSERT_EQ(out[b], nan ? canonical : b)
            << kernels->name << " dtype " << dtype << " bits " << b;
      }
    }
  }
}

TEST(Kernel, SumsRoundToNearestEven) {
  std::mt19937 random(5);
  for (int dtype : {TANDEM_DTYPE_F16, TANDEM_DTYPE_BF16}) {
    int exponentBits = dtype == TANDEM_DTYPE_F16 ? 5 : 8;
    int fractionBits = 15 - exponentBits;
    SlowRounder rounder(exponentBits, fractionBits);
    std::vector<uint16_t> a, b;
    for (int i = 0; i < 400000; ++i) {
      uint16_t x = uint16_t(random());
      // Mostly of nearby magnitude, so that ties and carries are common.
      uint16_t y = i % 3 ? uint16_t(x ^ (random() & ((8u << fractionBits) - 1)))
                         : uint16_t(random());
      a.push_back(x);
      b.push_back(y);
    }
    for (const Kernels *kernels : kernelSets()) {
      auto out = sumOf(*kernels, dtype, a, b);
      for (size_t i = 0; i < a.size(); ++i) {
        double exact = valueOf(a[i], exponentBits, fractionBits) +
                       valueOf(b[i], exponentBits, fractionBits);
        ASSERT_EQ(out[i], rounder.round(exact))
            << kernels->name << " dtype " << dtype << " " << a[i] << " + "
            << b[i];
      }
    }
  }
}

/// All sources of a norm for one row of `n` elements of random bits.
namespace {
struct RowData {
  std::vector<char> x, bias, residual, gamma, preGamma;
  RowData(std::mt19937 &random, int dtype, int gammaType, int64_t n,
          bool wild) {
    auto fill = [&](std::vector<char> &to, int type) {
      uint64_t element = elementBytes(type);
      to.resize(static_cast<size_t>(n) * element);
      std::normal_distribution<float> normal(0, 2);
      for (int64_t i = 0; i < n; ++i) {
        uint32_t bits = wild ? uint32_t(random()) : bitsOf(normal(random));
        if (type == TANDEM_DTYPE_BF16)
          bits = bits >> 16;
        else if (type == TANDEM_DTYPE_F16 && !wild)
          bits = 0x3000 + (bits & 0x8fff);
        memcpy(to.data() + static_cast<uint64_t>(i) * element, &bits, element);
      }
    };
    fill(x, dtype);
    fill(bias, dtype);
    fill(residual, dtype);
    fill(gamma, gammaType);
    fill(preGamma, gammaType);
  }
};
} // namespace

TEST(Kernel, AllInstructionSetsAndAliasesGiveTheSameBits) {
  std::mt19937 random(9);
  int cases = 0;
  for (int dtype = 0; dtype < 3; ++dtype)
    for (int gammaType = 0; gammaType < 3; ++gammaType)
      for (int64_t n : {1, 3, 63, 64, 65, 127, 128, 1000, 4096})
        for (unsigned form = 0; form < 16; ++form) {
          bool wild = form & 8;
          RowData data(random, dtype, gammaType, n, wild);
          size_t bytes = static_cast<size_t>(n) * elementBytes(dtype);
          // Where the outputs lie: apart; norm on x; norm on the residual; new
          // residual on the residual, norm on x; the sum on x; sum on residual.
          std::vector<char> wantY, wantR, wantS;
          for (const Kernels *kernels : kernelSets())
            for (int alias = 0; alias < 6; ++alias) {
              RowData d = data;
              std::vector<char> y(bytes), r(bytes), s(bytes);
              NormRow row = {};
              row.n = n;
              row.x = d.x.data();
              row.residual = form & 1 ? d.residual.data() : nullptr;
              row.bias = form & 2 ? d.bias.data() : nullptr;
              if (form & 4)
                row.pre = {d.preGamma.data(), gammaType, int(form & 1), 1e-5f};
              row.norm = {d.gamma.data(), gammaType, int(form >> 1 & 1), 1e-6f};
              row.y = alias == 1 || alias == 3 ? d.x.data()
                      : alias == 2             ? d.residual.data()
                                               : y.data();
              row.r = alias == 3   ? d.residual.data()
                      : alias == 2 ? nullptr
                                   : r.data();
              row.s = alias == 4   ? d.x.data()
                      : alias == 5 ? d.residual.data()
                                   : s.data();
              kernels->norm[dtype](row);
              ++cases;
              auto copy = [&](void *p) {
                return std::vector<char>(static_cast<char *>(p),
                                         static_cast<char *>(p) + bytes);
              };
              if (wantY.empty()) {
                wantY = copy(row.y);
                wantR = copy(row.r);
                wantS = copy(row.s);
                continue;
              }
              std::string where = std::string(kernels->name) + " dtype " +
                                  std::to_string(dtype) + " gamma " +
                                  std::to_string(gammaType) + " n " +
                                  std::to_string(n) + " form " +
                                  std::to_string(form) + " alias " +
                                  std::to_string(alias);
              ASSERT_EQ(copy(row.y), wantY) << where;
              if (row.r) {
                ASSERT_EQ(copy(row.r), wantR) << where;
              }
              ASSERT_EQ(copy(row.s), wantS) << where;
            }
        }
  EXPECT_GT(cases, 2000);
}

TEST(Kernel, AnElementHasTheSameBitsWhereverItLies) {
  // Vector body or tail, beginning or end: with all NaNs, too.
  std::mt19937 random(11);
  for (int dtype = 0; dtype < 3; ++dtype) {
    size_t element = elementBytes(dtype);
    std::vector<char> a(1000 * element), b(1000 * element), all(1000 * element);
    for (char &c : a)
      c = char(random());
    for (char &c : b)
      c = char(random());
    const void *sources[2] = {a.data(), b.data()};
    for (const Kernels *kernels : kernelSets())
      for (int reduction = 0; reduction < 4; ++reduction) {
        kernels->reduce[dtype](reduction, sources, 2, all.data(), 1000);
        for (size_t i = 0; i < 1000; ++i) {
          uint32_t one = 0;
          const void *single[2] = {a.data() + i * element,
                                   b.data() + i * element};
          kernels->reduce[dtype](reduction, single, 2, &one, 1);
          ASSERT_EQ(memcmp(&one, all.data() + i * element, element), 0)
              << kernels->name << " dtype " << dtype << " reduction "
              << reduction << " element " << i;
        }
      }
  }
}

TEST(Kernel, MaxAndMinPropagateNaNAndOrderZeros) {
  const float nan = NAN, inf = INFINITY;
  struct {
    float a, b, max, min;
  } cases[] = {{1, 2, 2, 1},
               {-0.0f, 0.0f, 0.0f, -0.0f},
               {0.0f, -0.0f, 0.0f, -0.0f},
               {nan, 1, nan, nan},
               {1, nan, nan, nan},
               {inf, -inf, inf, -inf},
               {-1, -1, -1, -1}};
  for (const Kernels *kernels : kernelSets())
    for (auto &c : cases) {
      const void *sources[2] = {&c.a, &c.b};
      float max, min;
      kernels->reduce[0](TANDEM_REDUCTION_MAX, sources, 2, &max, 1);
      kernels->reduce[0](TANDEM_REDUCTION_MIN, sources, 2, &min, 1);
      auto same = [](float x, float y) {
        return std::isnan(y) ? bitsOf(x) == 0x7fc00000 : bitsOf(x) == bitsOf(y);
      };
      EXPECT_TRUE(same(max, c.max)) << c.a << " " << c.b << " " << max;
      EXPECT_TRUE(same(min, c.min)) << c.a << " " << c.b << " " << min;
    }
}

#if defined(__x86_64__)
TEST(Kernel, AHostThatFlushesSubnormalsMakesNoDifference) {
  // Through the C ABI, which puts the thread's mode aside.
  float gamma[4] = {1, 1, 1, 1}, x[4] = {1e-40f, 0, 0, 0}, y[4], r[4];
  tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
  args.tokens = 1;
  args.hidden = 4;
  args.input.data = x;
  args.norm_out.data = y;
  args.residual_out.data = r;
  args.norm.gamma = gamma;
  args.norm.epsilon = 1.0;
  unsigned saved = _mm_getcsr();
  unsigned flushing = saved | 0x8040;
  _mm_setcsr(flushing);
  tandem_status status = tandem_add_rms_norm(nullptr, &args);
  unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(status, TANDEM_STATUS_OK);
  EXPECT_EQ(after & 0x8040, flushing & 0x8040);
  EXPECT_EQ(bitsOf(r[0]), bitsOf(1e-40f));
  EXPECT_EQ(bitsOf(y[0]), bitsOf(1e-40f));
}
#endif

TEST(Layout, RegionsDoNotOverlap) {
  for (uint32_t world : {2u, 3u, 8u, 128u})
    for (uint64_t capacity : {1ull, 128ull, 1000ull, 1ull << 33}) {
      Layout layout;
      ASSERT_FALSE(layOut(world, capacity, layout));
      EXPECT_GE(layout.capacity, capacity);
      EXPECT_EQ(layout.capacity % lineBytes, 0u);
      char *base = reinterpret_cast<char *>(uintptr_t(1) << 40);
      uint64_t end = sizeof(SegmentHeader);
      auto next = [&](const void *p, uint64_t bytes) {
        uint64_t at = uint64_t(static_cast<const char *>(p) - base);
        EXPECT_GE(at, end);
        EXPECT_EQ(at % lineBytes, 0u);
        end = at + bytes;
      };
      for (uint32_t r = 0; r < world; ++r)
        next(layout.line(base, int(r)), sizeof(RankLine));
      for (uint32_t s = 0; s < numSlots; ++s)
        for (uint32_t r = 0; r < world; ++r)
          next(layout.header(base, s, int(r)), sizeof(CallHeader));
      for (uint32_t s = 0; s < numSlots; ++s)
        for (uint32_t r = 0; r < world; ++r)
          next(layout.data(base, s, int(r)), layout.capacity);
      EXPECT_GE(layout.bytes, end);
      EXPECT_LT(layout.bytes, end + 4096);
      // The formula of docs/runtime.md.
      auto roundUp = [](uint64_t n) { return (n + 4095) / 4096 * 4096; };
      uint64_t c = (capacity + 127) / 128 * 128;
      EXPECT_EQ(layout.bytes,
                roundUp(2 * world * c + roundUp(640 + 384 * world)));
    }
  Layout layout;
  EXPECT_TRUE(layOut(8, UINT64_MAX / 8, layout));
  EXPECT_TRUE(layOut(2, UINT64_MAX, layout));
}
