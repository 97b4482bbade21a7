//===-- KernelsTest.cpp - The CUDA kernels on GPUs ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// All ranks in one process. Sums and new residuals are compared bit by bit with
// what f32 arithmetic in rank order gives on the host, norms with an interval
// in float64. TANDEM_TEST_FULL=1 runs the long forms.

#include "Ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

using namespace tandem::cuda;

namespace {
bool fullTests() {
  const char *full = getenv("TANDEM_TEST_FULL");
  return full && *full == '1';
}

#define NEEDS_GPUS(n)                                                          \
  do {                                                                         \
    std::string why_ = whyNoGpu(n);                                            \
    if (!why_.empty())                                                         \
      GTEST_SKIP() << why_;                                                    \
  } while (0)

int gpus() { return whyNoGpu(2).empty() ? 2 : 1; }

//===----------------------------------------------------------------------===//
// Types on the host
//===----------------------------------------------------------------------===//

int sizeOf(int dtype) { return dtype == 0 ? 4 : 2; }

float floatOf(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
uint32_t bitsOf(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

float widen(uint32_t bits, int dtype) {
  if (dtype == 0)
    return floatOf(bits);
  if (dtype == 2)
    return floatOf(bits << 16);
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31)
    return fraction ? NAN : sign * INFINITY;
  return exponent
             ? sign * std::ldexp(float(1024 + fraction), int(exponent) - 25)
             : sign * std::ldexp(float(fraction), -24);
}

/// Rounds to nearest even; NaN is the canonical one.
uint32_t roundBits(float value, int dtype) {
  if (std::isnan(value))
    return dtype == 0 ? 0x7fc00000 : dtype == 1 ? 0x7e00 : 0x7fc0;
  uint32_t bits = bitsOf(value);
  if (dtype == 0)
    return bits;
  if (dtype == 2)
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t sign = bits >> 16 & 0x8000;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;
  if (magnitude < 0x1p-14f)
    return sign | uint32_t(std::nearbyint(magnitude * 0x1p24f));
  uint32_t m = bits & 0x7fffffff;
  return sign | ((m - (112u << 23) + 0xfff + (m >> 13 & 1)) >> 13);
}

/// Rows of elements on the host; `at` is in elements.
struct HostRows {
  int dtype = 0;
  std::vector<char> bytes;
  uint32_t bits(int64_t at) const {
    if (dtype == 0)
      return reinterpret_cast<const uint32_t *>(bytes.data())[at];
    return reinterpret_cast<const uint16_t *>(bytes.data())[at];
  }
  float value(int64_t at) const { return widen(bits(at), dtype); }
  void set(int64_t at, uint32_t b) {
    if (dtype == 0)
      reinterpret_cast<uint32_t *>(bytes.data())[at] = b;
    else
      reinterpret_cast<uint16_t *>(bytes.data())[at] = static_cast<uint16_t>(b);
  }
  static HostRows of(int dtype, int64_t elements) {
    HostRows rows;
    rows.dtype = dtype;
    rows.bytes.assign(static_cast<size_t>(elements * sizeOf(dtype)), 0);
    return rows;
  }
};

enum class Fill { Ordinary, AnyBits, Adversarial };

/// A view of device memory, `offset` elements into it.
struct View {
  DeviceBuffer buffer;
  int64_t offset = 0;
  int64_t stride = 0;
};

struct Case {
  int64_t tokens = 1;
  int64_t hidden = 4096;
  int dtype = 2;
  int gammaType = 2;
  int rounding = 0;
  bool norm = true;
  bool residual = true;
  bool bias = false;
  bool pre = false;
  bool sumOut = false;
  bool residualOut = true;
  /// The new residual goes where the old one is, the norm where the input is.
  bool inPlace = false;
  int reduction = 0;
  /// Elements between rows beyond `hidden`, and before the first.
  int64_t padding = 0;
  int64_t offset = 0;
  Fill fill = Fill::Ordinary;

  std::string name() const {
    return std::to_string(tokens) + "x" + std::to_string(hidden) + " dtype " +
           std::to_string(dtype) + " gamma " + std::to_string(gammaType) +
           " rounding " + std::to_string(rounding) +
           (norm ? "" : " sum alone") + (residual ? " residual" : "") +
           (bias ? " bias" : "") + (pre ? " pre" : "") +
           (inPlace ? " in place" : "") + " reduction " +
           std::to_string(reduction) + " padding " + std::to_string(padding) +
           " offset " + std::to_string(offset) + " fill " +
           std::to_string(static_cast<int>(fill));
  }
};

constexpr double preEpsilon = 1e-5, normEpsilon = 1e-6;

/// What one rank brings and gets.
struct RankData {
  HostRows input;
  View x, residual, out, residualOut, sumOut, bias, preGamma, gamma;
  HostRows gotOut, gotResidual, gotSum;
  std::vector<std::vector<char>> kept;
};

class Problem {
public:
  Problem(Ranks &ranks, const Case &c, uint64_t seed)
      : ranks(ranks), c(c), random(seed) {
    stride = c.hidden + c.padding;
    residual = ordinaryRows(c.dtype, c.tokens);
    if (c.fill == Fill::AnyBits)
      fillRows(residual, c.tokens);
    bias = ordinaryRows(c.dtype, 1);
    preGamma = ordinaryRows(c.gammaType, 1);
    gamma = ordinaryRows(c.gammaType, 1);
    data.resize(static_cast<size_t>(ranks.world));
    for (int rank = 0; rank < ranks.world; ++rank) {
      RankData &d = data[static_cast<size_t>(rank)];
      d.input = ordinaryRows(c.dtype, c.tokens);
      fillInput(d.input, rank);
      d.x = upload(rank, d.input, c.tokens);
      if (c.residual)
        d.residual = upload(rank, residual, c.tokens);
      d.bias = upload(rank, bias, 1);
      d.preGamma = upload(rank, preGamma, 1);
      d.gamma = upload(rank, gamma, 1);
      d.out = room(rank);
      d.residualOut = room(rank);
      d.sumOut = room(rank);
    }
    // Copies from pageable memory may still be on their way, and the ranks'
    // streams don't wait for them.
    for (int device = 0; device < ranks.devices; ++device) {
      TANDEM_CHECK_CUDA(cudaSetDevice(device));
      TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
    }
  }

  CallArgs argsOf(int rank) const {
    const RankData &d = data[static_cast<size_t>(rank)];
    CallArgs args = {};
    args.tokens = c.tokens;
    args.hidden = c.hidden;
    args.dtype = c.dtype;
    args.reduction = c.reduction;
    args.input = rowsOf(d.x);
    if (!c.norm) {
      args.sumOut = c.inPlace ? args.input : rowsOf(d.sumOut);
      return args;
    }
    if (c.residual)
      args.residual = rowsOf(d.residual);
    args.out = c.inPlace ? args.input : rowsOf(d.out);
    if (c.residualOut)
      args.residualOut =
          c.inPlace && c.residual ? args.residual : rowsOf(d.residualOut);
    if (c.sumOut)
      args.sumOut = rowsOf(d.sumOut);
    if (c.bias)
      args.bias = pointerOf(d.bias, c.dtype);
    if (c.pre)
      args.pre = {pointerOf(d.preGamma, c.gammaType), c.gammaType, c.rounding,
                  float(preEpsilon)};
    args.norm = {pointerOf(d.gamma, c.gammaType), c.gammaType, c.rounding,
                 float(normEpsilon)};
    return args;
  }

  CallShape shape() const {
    CallShape shape = {};
    shape.tokens = c.tokens;
    shape.hidden = c.hidden;
    shape.dtype = c.dtype;
    shape.reduction = c.reduction;
    shape.kind = c.norm ? 0 : 1;
    shape.norm = c.norm;
    shape.variant = c.norm
                        ? variantOf(c.bias, c.residual, c.pre, true, c.rounding,
                                    c.rounding, c.gammaType, c.gammaType)
                        : 0;
    shape.epsilonBits = bitsOf(float(normEpsilon));
    return shape;
  }

  Plan plan() const {
    Plan plan;
    const char *why = planCall(ranks.facts, shape(), plan);
    EXPECT_EQ(why, nullptr) << (why ? why : "") << " " << c.name();
    return plan;
  }

  /// Launches on all ranks.
  void launch(const Plan &plan) {
    launch(std::vector<Plan>(static_cast<size_t>(ranks.world), plan));
  }
  /// With a plan for each rank.
  void launch(const std::vector<Plan> &plans) {
    launched = true;
    for (int rank = 0; rank < ranks.world; ++rank) {
      ranks.use(rank);
      Endpoint endpoint = ranks.endpoint(rank);
      endpoint.general = general;
      TANDEM_CHECK_CUDA(launchExchange(endpoint, argsOf(rank),
                                       plans[static_cast<size_t>(rank)],
                                       ranks.stream(rank)));
    }
  }

  /// Reads the results back; no rank may have failed.
  void fetch() {
    ranks.synchronize();
    for (int rank = 0; rank < ranks.world; ++rank) {
      RankData &d = data[static_cast<size_t>(rank)];
      ASSERT_EQ(ranks.record(rank).state, 0u)
          << c.name() << ": status " << ranks.record(rank).status;
      ranks.use(rank);
      if (c.norm) {
        d.gotOut = download(c.inPlace ? d.x : d.out);
        if (c.residualOut)
          d.gotResidual =
              download(c.inPlace && c.residual ? d.residual : d.residualOut);
        if (c.sumOut)
          d.gotSum = download(d.sumOut);
      } else {
        d.gotSum = download(c.inPlace ? d.x : d.sumOut);
      }
    }
  }

  /// Compares with the host; "" or what is wrong.
  std::string check() {
    for (int rank = 1; rank < ranks.world; ++rank) {
      const RankData &a = data[0], &b = data[static_cast<size_t>(rank)];
      if (a.gotOut.bytes != b.gotOut.bytes ||
          a.gotResidual.bytes != b.gotResidual.bytes ||
          a.gotSum.bytes != b.gotSum.bytes)
        return "rank " + std::to_string(rank) + " differs from rank 0";
    }
    for (int64_t t = 0; t < c.tokens; ++t) {
      std::string wrong = checkRow(t);
      if (!wrong.empty())
        return "token " + std::to_string(t) + ": " + wrong;
    }
    return std::string();
  }

  /// What was fetched is what compare expects from then on.
  void keep() {
    for (RankData &d : data)
      d.kept = {d.gotOut.bytes, d.gotResidual.bytes, d.gotSum.bytes};
    overwrite();
  }

  /// Fetches the results of what was launched since, if anything was, and
  /// overwrites them on the devices; "" or what is wrong.
  std::string compare() {
    if (!launched)
      return std::string();
    fetch();
    if (testing::Test::HasFatalFailure())
      return "a rank has failed";
    for (size_t rank = 0; rank < data.size(); ++rank) {
      RankData &d = data[rank];
      if (d.kept != std::vector<std::vector<char>>{
                        d.gotOut.bytes, d.gotResidual.bytes, d.gotSum.bytes})
        return "rank " + std::to_string(rank) + " has other bits than before";
    }
    overwrite();
    return std::string();
  }

  void run(const Plan &plan) {
    launch(plan);
    fetch();
    EXPECT_EQ(check(), "") << c.name() << ", " << protocolName(plan.protocol);
  }

  std::vector<RankData> data;
  /// Not by the quick kernels.
  bool general = false;

private:
  /// For what has no outputs in place.
  void overwrite() {
    launched = false;
    for (int rank = 0; rank < ranks.world; ++rank) {
      ranks.use(rank);
      RankData &d = data[static_cast<size_t>(rank)];
      for (View *view : {&d.out, &d.residualOut, &d.sumOut})
        TANDEM_CHECK_CUDA(cudaMemsetAsync(
            view->buffer.get(), 0xcd, view->buffer.size(), ranks.stream(rank)));
    }
  }

  HostRows ordinaryRows(int dtype, int64_t rows) {
    HostRows host = HostRows::of(dtype, rows * c.hidden);
    for (int64_t i = 0; i < rows * c.hidden; ++i) {
      // Cheap, roughly normal.
      uint64_t r = random();
      float v = (float(r & 0xffff) + float(r >> 16 & 0xffff) +
                 float(r >> 32 & 0xffff) - 98302.5f) /
                40000.0f;
      host.set(i, roundBits(v, dtype));
    }
    return host;
  }

  void fillRows(HostRows &rows, int64_t n) {
    for (int64_t i = 0; i < n * c.hidden; ++i)
      if (i % 7 == 3)
        rows.set(i, static_cast<uint32_t>(random()));
  }

  void fillInput(HostRows &rows, int rank) {
    if (c.fill == Fill::AnyBits) {
      // Every bit pattern, some rows with NaN and infinity and some without.
      for (int64_t i = 0; i < c.tokens * c.hidden; ++i) {
        uint32_t bits = static_cast<uint32_t>(random());
        if ((i / c.hidden) % 2 == 0 &&
            !std::isfinite(widen(c.dtype ? bits & 0xffff : bits, c.dtype)))
          bits = 0x8000u << (c.dtype ? 0 : 16);
        rows.set(i, bits);
      }
    } else if (c.fill == Fill::Adversarial) {
      // Large, small, minus large: right in rank order alone; and -0.
      const float big = c.dtype == 1 ? 2048.0f : 16777216.0f;
      for (int64_t i = 0; i < c.tokens * c.hidden; ++i) {
        int which = (rank + int(i % 3)) % 3;
        float v = which == 0 ? big : which == 1 ? 1.0f : -big;
        if (i % 5 == 0)
          v = -0.0f;
        if (i % 11 == 0)
          v = widen(1, c.dtype);
        rows.set(i, roundBits(v, c.dtype));
      }
    }
  }

  View upload(int rank, const HostRows &rows, int64_t n) {
    View view;
    view.offset = c.offset;
    view.stride = n == 1 ? c.hidden : stride;
    int size = sizeOf(rows.dtype);
    view.buffer = DeviceBuffer(
        ranks.deviceOf(rank),
        static_cast<size_t>((n * view.stride + view.offset) * size));
    TANDEM_CHECK_CUDA(cudaMemset(view.buffer.get(), 0xff, view.buffer.size()));
    TANDEM_CHECK_CUDA(
        cudaMemcpy2D(view.buffer.get() + view.offset * size,
                     static_cast<size_t>(view.stride * size), rows.bytes.data(),
                     static_cast<size_t>(c.hidden * size),
                     static_cast<size_t>(c.hidden * size),
                     static_cast<size_t>(n), cudaMemcpyHostToDevice));
    return view;
  }

  View room(int rank) {
    View view;
    view.offset = c.offset;
    view.stride = stride;
    int size = sizeOf(c.dtype);
    view.buffer = DeviceBuffer(
        ranks.deviceOf(rank),
        static_cast<size_t>((c.tokens * stride + view.offset) * size));
    TANDEM_CHECK_CUDA(cudaMemset(view.buffer.get(), 0xcd, view.buffer.size()));
    return view;
  }

  HostRows download(const View &view) {
    HostRows rows = HostRows::of(c.dtype, c.tokens * c.hidden);
    int size = sizeOf(c.dtype);
    TANDEM_CHECK_CUDA(
        cudaMemcpy2D(rows.bytes.data(), static_cast<size_t>(c.hidden * size),
                     view.buffer.get() + view.offset * size,
                     static_cast<size_t>(view.stride * size),
                     static_cast<size_t>(c.hidden * size),
                     static_cast<size_t>(c.tokens), cudaMemcpyDeviceToHost));
    return rows;
  }

  Rows rowsOf(const View &view) const {
    return {view.buffer.get() + view.offset * sizeOf(c.dtype), view.stride};
  }
  static const void *pointerOf(const View &view, int dtype) {
    return view.buffer.get() + view.offset * sizeOf(dtype);
  }

  float combine(float a, float b) const {
    switch (c.reduction) {
    case 1:
    case 2: {
      if (std::isnan(a) || std::isnan(b))
        return NAN;
      if (a == b)
        return (c.reduction == 1) == std::signbit(a) ? b : a;
      return (c.reduction == 1) == (a < b) ? b : a;
    }
    case 3:
      return a * b;
    default:
      return a + b;
    }
  }

  struct Interval {
    float low, high;
  };
  Interval rounded(double low, double high) const {
    if (low > high)
      std::swap(low, high);
    return {widen(roundBits(float(low), c.dtype), c.dtype),
            widen(roundBits(float(high), c.dtype), c.dtype)};
  }
  /// What norm(v) may be.
  Interval normOf(Interval v, double low, double high, float g) const {
    double a = double(v.low), b = double(v.high);
    // |v| times a larger k is further from zero.
    double lo = a * (a < 0 ? high : low), hi = b * (b < 0 ? low : high);
    // Products may be subnormal in f32, where errors aren't relative.
    lo -= 0x1p-149;
    hi += 0x1p-149;
    if (c.rounding == 0) {
      Interval r = rounded(lo, hi);
      lo = r.low;
      hi = r.high;
    }
    lo *= g;
    hi *= g;
    if (lo > hi)
      std::swap(lo, hi);
    return rounded(lo - 0x1p-149, hi + 0x1p-149);
  }

  std::string checkRow(int64_t t) {
    const int64_t n = c.hidden;
    const int64_t at = t * n;
    std::vector<Interval> v(static_cast<size_t>(n));
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      float sum = data[0].input.value(at + i);
      for (int rank = 1; rank < ranks.world; ++rank)
        sum = combine(sum, data[static_cast<size_t>(rank)].input.value(at + i));
      uint32_t bits = roundBits(sum, c.dtype);
      if (!data[0].gotSum.bytes.empty() && data[0].gotSum.bits(at + i) != bits)
        return "sum[" + std::to_string(i) + "] is " +
               std::to_string(data[0].gotSum.bits(at + i)) + ", not " +
               std::to_string(bits);
      float s = widen(bits, c.dtype);
      if (c.bias)
        s = widen(roundBits(s + bias.value(i), c.dtype), c.dtype);
      finite &= bool(std::isfinite(s));
      v[static_cast<size_t>(i)] = {s, s};
    }
    if (!c.norm)
      return std::string();
    // Ours: 6 levels within a thread at most, 5 in a warp, 6 among warps; the
    // squares, division, root and product.
    const double slack = 24 * 0x1p-24;
    auto scale = [&](double epsilon, double &low, double &high) {
      double least = 0, most = 0;
      for (const Interval &x : v) {
        double a = std::fabs(double(x.low)), b = std::fabs(double(x.high));
        bool across = x.low < 0 && x.high > 0;
        least += across ? 0 : std::min(a * a, b * b);
        most += std::max(a * a, b * b);
      }
      low = 1 / std::sqrt(most / double(n) + double(float(epsilon))) *
            (1 - slack);
      high = 1 / std::sqrt(least / double(n) + double(float(epsilon))) *
             (1 + slack);
    };
    double low, high;
    // Where squares overflow, k is 0 or NaN, as on the host: only that NaNs are
    // canonical is looked at.
    auto fits = [&] {
      double squares = 0;
      for (const Interval &x : v)
        squares += double(x.low) * double(x.low);
      return squares < 1e37;
    };
    bool plain = finite && fits();
    if (c.pre) {
      scale(preEpsilon, low, high);
      for (int64_t i = 0; i < n; ++i)
        v[size_t(i)] = normOf(v[size_t(i)], low, high, preGamma.value(i));
    }
    for (int64_t i = 0; i < n; ++i) {
      if (c.residual) {
        float r = residual.value(at + i);
        v[size_t(i)] = rounded(double(v[size_t(i)].low) + r,
                               double(v[size_t(i)].high) + r);
      }
      finite &=
          std::isfinite(v[size_t(i)].low) && std::isfinite(v[size_t(i)].high);
      if (!data[0].gotResidual.bytes.empty()) {
        float got = data[0].gotResidual.value(at + i);
        bool exact = !c.pre;
        finite &= plain || !c.pre;
        const Interval &want = v[size_t(i)];
        if (exact && finite ? data[0].gotResidual.bits(at + i) !=
                                  roundBits(want.low, c.dtype)
                            : finite && !(got >= want.low && got <= want.high))
          return "residual[" + std::to_string(i) + "] is " +
                 std::to_string(got) + ", not " + std::to_string(want.low) +
                 " to " + std::to_string(want.high);
        // The norm is checked from the value that there is.
        v[size_t(i)] = {got, got};
      }
    }
    plain &= finite && fits();
    scale(normEpsilon, low, high);
    for (int64_t i = 0; i < n; ++i) {
      float got = data[0].gotOut.value(at + i);
      if (!plain) {
        uint32_t bits = data[0].gotOut.bits(at + i);
        if (std::isnan(got) && bits != roundBits(NAN, c.dtype))
          return "out[" + std::to_string(i) + "] is not the canonical NaN";
        continue;
      }
      Interval want = normOf(v[size_t(i)], low, high, gamma.value(i));
      if (!(got >= want.low && got <= want.high))
        return "out[" + std::to_string(i) + "] is " + std::to_string(got) +
               ", not " + std::to_string(want.low) + " to " +
               std::to_string(want.high);
    }
    return std::string();
  }

  Ranks &ranks;
  const Case c;
  std::mt19937_64 random;
  bool launched = false;
  int64_t stride;
  HostRows residual, bias, preGamma, gamma;
};

/// Facts that make planCall choose a protocol.
void force(Ranks &ranks, Protocol protocol) {
  ranks.facts.wholeLines = protocol != Protocol::Elements;
  uint64_t all = ~uint64_t(0);
  switch (protocol) {
  case Protocol::Lines:
  case Protocol::Elements:
    ranks.facts.tuning = {all, all};
    break;
  case Protocol::Rows:
    ranks.facts.tuning = {0, all};
    break;
  default:
    ranks.facts.tuning = {0, 0};
  }
}

std::vector<Protocol> protocolsOf(int world) {
  std::vector<Protocol> all{Protocol::Lines, Protocol::Elements,
                            Protocol::Rows};
  if (world > 2)
    all.push_back(Protocol::TwoStep);
  return all;
}
} // namespace

TEST(CudaKernels, LinesAreWholeBetweenAllPairs) {
  NEEDS_GPUS(1);
  Ranks ranks(2, gpus(), 1 << 20);
  std::vector<DeviceBuffer> results;
  for (int rank = 0; rank < 2; ++rank) {
    results.emplace_back(ranks.deviceOf(rank), sizeof(SelfTestResult));
    TANDEM_CHECK_CUDA(
        cudaMemset(results.back().get(), 0, sizeof(SelfTestResult)));
    TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
  }
  for (int rank = 0; rank < 2; ++rank) {
    ranks.use(rank);
    TANDEM_CHECK_CUDA(launchSelfTest(
        ranks.endpoint(rank), 200000, 5000000000ull,
        reinterpret_cast<SelfTestResult *>(results[size_t(rank)].get()),
        ranks.stream(rank)));
  }
  ranks.synchronize();
  for (int rank = 0; rank < 2; ++rank) {
    SelfTestResult result;
    ranks.use(rank);
    TANDEM_CHECK_CUDA(cudaMemcpy(&result, results[size_t(rank)].get(),
                                 sizeof(result), cudaMemcpyDeviceToHost));
    EXPECT_EQ(result.missing, 0u);
    EXPECT_EQ(result.torn, 0u);
    printf("rank %d saw %llu states of lines\n", rank,
           static_cast<unsigned long long>(result.seen));
  }
}

TEST(CudaKernels, Matrix) {
  NEEDS_GPUS(1);
  for (int world : {2, 3, 5, 8}) {
    Ranks ranks(world, gpus(), uint64_t(600) * 16384 * 4);
    uint64_t seed = 1;
    for (Protocol protocol : protocolsOf(world)) {
      force(ranks, protocol);
      for (int dtype : {0, 1, 2})
        for (int64_t hidden : {8, 64, 480, 2048, 4096, 5120, 7168, 16384})
          for (int64_t tokens : {1, 2, 7, 65, 300}) {
            bool big = tokens * hidden > 300000;
            if (!fullTests() && (big || (world > 3 && tokens > 7)))
              continue;
            Case c;
            c.tokens = tokens;
            c.hidden = hidden;
            c.dtype = dtype;
            // Walks through the variants, so that all meet all in the end.
            uint64_t mix = seed * 0x9e3779b97f4a7c15ull >> 20;
            c.gammaType = mix % 4 == 0 ? 0 : dtype;
            c.rounding = mix >> 2 & 1;
            c.residual = mix >> 3 & 3;
            c.bias = (mix >> 5 & 3) == 0;
            c.pre = (mix >> 7 & 3) == 0;
            c.sumOut = mix >> 9 & 1;
            c.residualOut = mix >> 10 & 3;
            c.inPlace = (mix >> 12 & 3) == 0;
            c.padding = (mix >> 14 & 3) == 0 ? 24 : 0;
            c.offset = (mix >> 16 & 7) == 0 ? 1 : 0;
            c.fill = Fill(mix >> 19 & 3 ? 0 : 1 + (mix >> 21) % 2);
            Problem problem(ranks, c, seed++);
            problem.run(problem.plan());
            if (HasFailure())
              return;
          }
    }
  }
}

TEST(CudaKernels, SumsAlone) {
  NEEDS_GPUS(1);
  for (int world : {2, 4}) {
    Ranks ranks(world, gpus(), 8 << 20);
    uint64_t seed = 100;
    for (Protocol protocol : protocolsOf(world)) {
      force(ranks, protocol);
      for (int dtype : {0, 1, 2})
        for (int64_t hidden : {8, 4096, 40000, 151936})
          for (int reduction : {0, 1, 2, 3})
            for (bool inPlace : {false, true}) {
              Case c;
              c.norm = false;
              c.tokens = 5;
              c.hidden = hidden;
              c.dtype = dtype;
              c.reduction = reduction;
              c.inPlace = inPlace;
              c.fill = Fill(seed % 3);
              Problem problem(ranks, c, seed++);
              problem.run(problem.plan());
              if (HasFailure())
                return;
            }
    }
  }
}

TEST(CudaKernels, BitsDependNeitherOnPathNorOnBatch) {
  NEEDS_GPUS(1);
  for (int world : {2, 3})
    for (int64_t hidden : {64, 4096, 7168}) {
      Ranks ranks(world, gpus(), uint64_t(64) * hidden * 2);
      Case c;
      c.tokens = 64;
      c.hidden = hidden;
      c.pre = hidden == 4096;
      std::vector<char> first;
      for (Protocol protocol : protocolsOf(world)) {
        force(ranks, protocol);
        Problem problem(ranks, c, 5);
        problem.run(problem.plan());
        const std::vector<char> &out = problem.data[0].gotOut.bytes;
        if (first.empty())
          first = out;
        EXPECT_TRUE(first == out) << protocolName(protocol) << hidden;
      }
      // One token of them alone, and the other branch.
      Problem problem(ranks, c, 5);
      CallArgs args = problem.argsOf(0);
      ranks.use(0);
      // A sum over ranks by the local kernel, from a gathered copy.
      DeviceBuffer gathered(0, size_t(world) * 64 * size_t(hidden) * 2);
      for (int rank = 0; rank < world; ++rank)
        TANDEM_CHECK_CUDA(
            cudaMemcpy(gathered.get() + size_t(rank) * 64 * size_t(hidden) * 2,
                       problem.data[size_t(rank)].input.bytes.data(),
                       64 * size_t(hidden) * 2, cudaMemcpyHostToDevice));
      TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
      TANDEM_CHECK_CUDA(launchReduce(gathered.get(), uint32_t(world),
                                     args.input.data, uint64_t(64 * hidden), 2,
                                     0, ranks.stream(0)));
      for (int64_t tokens : {64, 1}) {
        args.tokens = tokens;
        TANDEM_CHECK_CUDA(launchNorm(args, planNorm(132, tokens, hidden, 2),
                                     ranks.kernelFacts.programmatic,
                                     ranks.stream(0)));
        std::vector<char> got(size_t(tokens * hidden * 2));
        TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(0)));
        TANDEM_CHECK_CUDA(cudaMemcpy(got.data(), args.out.data, got.size(),
                                     cudaMemcpyDeviceToHost));
        EXPECT_EQ(memcmp(got.data(), first.data(), got.size()), 0)
            << tokens << " " << hidden;
        TANDEM_CHECK_CUDA(cudaMemset(args.out.data, 0, got.size()));
        TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
      }
    }
}

TEST(CudaKernels, InverseRootsAreRounded) {
  NEEDS_GPUS(1);
  DeviceBuffer different(0, 8);
  TANDEM_CHECK_CUDA(cudaMemset(different.get(), 0, 8));
  uint64_t *count = reinterpret_cast<uint64_t *>(different.get());
  for (float length : {1.0f, 8.0f, 1000.0f, 4096.0f, 7168.0f, 17280.0f})
    for (float epsilon : {0.0f, 1e-5f})
      launchInverseRms(length, epsilon, count, nullptr);
  launchInverseRms(4096.0f, 3e38f, count, nullptr);
  uint64_t got = 1;
  TANDEM_CHECK_CUDA(cudaGetLastError());
  TANDEM_CHECK_CUDA(cudaMemcpy(&got, count, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(got, 0u);
}

/// Several kernels do lines in a world of two, blocks may be fewer than rows,
/// or a row may be spread over several of them.
TEST(CudaKernels, PairsHaveTheSameBitsInAnyGrid) {
  NEEDS_GPUS(1);
  uint64_t seed = 900;
  int spreadCalls = 0;
  bool clusters = Ranks(2, gpus(), 4096).facts.clusterBlocks > 0;
  for (int dtype : {0, 1, 2})
    for (int64_t hidden : {8, 456, 472, 4096, 7168, 12288})
      for (int variant = 0; variant < 9; ++variant) {
        Ranks ranks(2, gpus(), uint64_t(40) * hidden * 4);
        Case c;
        c.tokens = 40;
        c.hidden = hidden;
        c.dtype = c.gammaType = dtype;
        c.norm = variant != 3;
        c.pre = variant == 1;
        c.residual = variant != 2;
        // What quick kernels of their own do, one by one and together.
        c.bias = variant == 4 || variant >= 7;
        c.sumOut = variant == 5 || variant >= 7;
        if (variant == 6 || variant >= 7)
          c.gammaType = 0;
        if (variant == 8)
          c.pre = true;
        c.rounding = (hidden / 8 + variant) % 2;
        c.padding = hidden == 4096 ? 16 : 0;
        c.fill = Fill(seed % 3);
        Problem problem(ranks, c, seed++);
        Plan plan = problem.plan();
        ASSERT_EQ(plan.protocol, Protocol::Lines);
        problem.run(plan);
        if (HasFailure())
          return;
        problem.keep();
        plan.spread = 0;
        for (uint32_t grid : {1u, 3u, 17u, 40u})
          for (bool general : {false, true}) {
            plan.grid = grid;
            problem.general = general;
            problem.launch(plan);
            ASSERT_EQ(problem.compare(), "")
                << c.name() << " grid " << grid << " general " << general;
          }
        // By this rank alone, too: what is sent is the same.
        problem.general = false;
        uint32_t resident = ranks.facts.clusterBlocks * uint32_t(gpus()) / 2;
        for (uint32_t spread : {2u, 4u, 8u})
          for (uint32_t ofRank : {3u, 1u, 2u}) {
            if (plan.shape.pairs != 1 || plan.rows * spread > resident)
              continue;
            std::vector<Plan> plans(2, plan);
            for (uint32_t rank : {0u, 1u})
              plans[rank].spread = ofRank >> rank & 1 ? spread : 0;
            problem.launch(plans);
            ASSERT_EQ(problem.compare(), "")
                << c.name() << " spread over " << spread << " on ranks "
                << ofRank;
            ++spreadCalls;
          }
      }
  // Clusters are there from 9.0 on.
  EXPECT_EQ(spreadCalls > 0, clusters);
}

TEST(CudaKernels, LocalNormsOfAnyLength) {
  NEEDS_GPUS(1);
  // A world of one rank that has its sum already: two ranks, one of them -0.
  Ranks ranks(2, gpus(), 1 << 20);
  uint64_t seed = 40;
  for (int dtype : {0, 1, 2})
    for (int64_t hidden : {1, 7, 100, 1000, 4096, 20000})
      for (bool pre : {false, true}) {
        Case c;
        c.tokens = 9;
        c.hidden = hidden;
        c.dtype = dtype;
        c.pre = pre;
        c.bias = seed % 2;
        c.sumOut = true;
        c.residualOut = seed % 3;
        c.inPlace = seed % 5 == 0;
        c.offset = hidden % 2;
        Problem problem(ranks, c, seed++);
        HostRows &other = problem.data[1].input;
        for (int64_t i = 0; i < 9 * hidden; ++i)
          other.set(i, 0x8000u << (dtype ? 0 : 16));
        for (int rank = 0; rank < 2; ++rank) {
          ranks.use(rank);
          CallArgs args = problem.argsOf(rank);
          if (rank == 1)
            TANDEM_CHECK_CUDA(cudaMemcpy2D(
                args.input.data, size_t(args.input.stride * sizeOf(dtype)),
                problem.data[0].input.bytes.data(),
                size_t(hidden * sizeOf(dtype)), size_t(hidden * sizeOf(dtype)),
                9, cudaMemcpyHostToDevice));
          TANDEM_CHECK_CUDA(cudaDeviceSynchronize());
          TANDEM_CHECK_CUDA(launchNorm(args, planNorm(132, 9, hidden, dtype),
                                       ranks.kernelFacts.programmatic,
                                       ranks.stream(rank)));
        }
        problem.fetch();
        EXPECT_EQ(problem.check(), "") << c.name();
      }
}

/// Random calls one after another, with random delays on random ranks. Each of
/// the problems is compared with float64 once, and then every now and then with
/// what it was, its outputs overwritten in between.
static void callAtRandom(int world, int calls) {
  Ranks ranks(world, gpus(), uint64_t(300) * 4096 * 4);
  std::mt19937_64 random(7);
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<Plan> plans;
  for (int i = 0; i < 24; ++i) {
    force(ranks, protocolsOf(world)[random() % protocolsOf(world).size()]);
    Case c;
    c.hidden = std::vector<int64_t>{64, 2048, 4096}[random() % 3];
    c.tokens = 1 + int64_t(random() % 300);
    c.dtype = i % 3;
    c.gammaType = random() % 4 ? c.dtype : 0;
    // Other kernels, in a world of two.
    c.sumOut = random() % 4 == 0;
    c.pre = random() % 4 == 0;
    problems.push_back(std::make_unique<Problem>(ranks, c, 1000 + i));
    problems.back()->general = random() % 8 == 0;
    plans.push_back(problems.back()->plan());
    problems[size_t(i)]->run(plans.back());
    if (testing::Test::HasFailure())
      return;
    problems[size_t(i)]->keep();
  }
  constexpr int between = 4096;
  for (int n = 0; n < calls; ++n) {
    size_t i = random() % problems.size();
    if (random() % 8 == 0) {
      int rank = int(random() % uint64_t(world));
      ranks.use(rank);
      launchDelay(random() % 20000, ranks.stream(rank));
    }
    problems[i]->launch(plans[i]);
    if (n % between != between - 1 && n != calls - 1)
      continue;
    for (size_t k = 0; k < problems.size(); ++k) {
      ASSERT_EQ(problems[k]->compare(), "")
          << "call " << n << ", " << protocolName(plans[k].protocol) << " "
          << k;
    }
  }
}

TEST(CudaKernels, ProtocolsInterleavedAtRandom) {
  NEEDS_GPUS(1);
  callAtRandom(2, fullTests() ? 1000000 : 8000);
  if (!HasFailure())
    callAtRandom(3, fullTests() ? 100000 : 2000);
}

TEST(CudaKernels, GraphsAndEagerCallsStayInStep) {
  NEEDS_GPUS(1);
  Ranks ranks(2, gpus(), uint64_t(600) * 4096 * 2);
  Case small, large;
  small.tokens = 3;
  large.tokens = 600;
  force(ranks, Protocol::Lines);
  Problem a(ranks, small, 1);
  Plan planA = a.plan();
  force(ranks, Protocol::Rows);
  Problem b(ranks, large, 2);
  Plan planB = b.plan();
  cudaGraphExec_t graphs[2], unused[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks.use(rank);
    for (cudaGraphExec_t *into : {&unused[rank], &graphs[rank]}) {
      cudaGraph_t graph;
      cudaStream_t stream = ranks.stream(rank);
      TANDEM_CHECK_CUDA(
          cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      // Odd, so that a replay ends in the other slot.
      for (int n = 0; n < 3; ++n) {
        TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(rank), a.argsOf(rank),
                                         planA, stream));
        TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(rank), b.argsOf(rank),
                                         planB, stream));
      }
      TANDEM_CHECK_CUDA(
          launchExchange(ranks.endpoint(rank), a.argsOf(rank), planA, stream));
      TANDEM_CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
      TANDEM_CHECK_CUDA(cudaGraphInstantiate(into, graph, 0));
      TANDEM_CHECK_CUDA(cudaGraphDestroy(graph));
    }
  }
  for (int n = 0; n < 200; ++n) {
    if (n % 3 != 0)
      for (int rank = 0; rank < 2; ++rank) {
        ranks.use(rank);
        TANDEM_CHECK_CUDA(cudaGraphLaunch(graphs[rank], ranks.stream(rank)));
      }
    else if (n % 2)
      a.launch(planA);
    else
      b.launch(planB);
  }
  a.fetch();
  EXPECT_EQ(a.check(), "");
  b.fetch();
  EXPECT_EQ(b.check(), "");
  for (int rank = 0; rank < 2; ++rank) {
    cudaGraphExecDestroy(graphs[rank]);
    cudaGraphExecDestroy(unused[rank]);
  }
}

/// Small calls of every kernel, captured into one graph a rank: what checkers
/// can run, which let launches of different ranks wait for each other.
TEST(CudaKernels, CapturedCallsOfEveryKind) {
  NEEDS_GPUS(1);
  // A GPU for each rank; a checker may not run two graphs of one GPU together.
  for (int world : gpus() == 1 ? std::vector<int>{2} : std::vector<int>{2, 3}) {
    if (world == 3 && !fullTests())
      continue;
    Ranks ranks(world, gpus(), uint64_t(20) * 9000 * 4);
    ranks.setDeadline(uint64_t(120) * 1000000000);
    std::vector<std::unique_ptr<Problem>> problems;
    std::vector<Plan> plans;
    uint64_t seed = 70;
    for (Protocol protocol : protocolsOf(world))
      for (int dtype : {0, 1, 2})
        for (int64_t hidden : {64, 4096, 9000})
          for (int variant = 0; variant < 6; ++variant) {
            force(ranks, protocol);
            Case c;
            c.tokens = hidden == 64 ? 20 : 3;
            c.hidden = hidden;
            c.dtype = dtype;
            c.gammaType = variant < 4 ? dtype : 0;
            c.norm = variant != 3;
            c.pre = variant == 1 || variant == 5;
            c.bias = c.sumOut = variant == 2;
            problems.push_back(std::make_unique<Problem>(ranks, c, seed++));
            plans.push_back(problems.back()->plan());
            // More rows than blocks.
            plans.back().grid = std::min(plans.back().grid, 2u);
            plans.back().pushers = plans.back().grid;
            bool canSpread = c.norm && plans.back().shape.pairs == 1 &&
                             ranks.facts.clusterBlocks;
            plans.back().spread = canSpread && seed % 2 ? 4 : 0;
          }
    std::vector<cudaGraphExec_t> graphs(static_cast<size_t>(world));
    for (int rank = 0; rank < world; ++rank) {
      ranks.use(rank);
      cudaStream_t stream = ranks.stream(rank);
      cudaGraph_t graph;
      TANDEM_CHECK_CUDA(
          cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (size_t i = 0; i < problems.size(); ++i)
        TANDEM_CHECK_CUDA(launchExchange(
            ranks.endpoint(rank), problems[i]->argsOf(rank), plans[i], stream));
      TANDEM_CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
      TANDEM_CHECK_CUDA(cudaGraphInstantiate(&graphs[size_t(rank)], graph, 0));
      TANDEM_CHECK_CUDA(cudaGraphDestroy(graph));
    }
    for (int n = 0; n < 2; ++n)
      for (int rank = 0; rank < world; ++rank) {
        ranks.use(rank);
        TANDEM_CHECK_CUDA(
            cudaGraphLaunch(graphs[size_t(rank)], ranks.stream(rank)));
      }
    for (size_t i = 0; i < problems.size(); ++i) {
      problems[i]->fetch();
      ASSERT_EQ(problems[i]->check(), "")
          << protocolName(plans[i].protocol) << " " << i;
    }
    for (cudaGraphExec_t graph : graphs)
      cudaGraphExecDestroy(graph);
  }
}

TEST(CudaKernels, GroupsOnStreamsOfTheirOwn) {
  NEEDS_GPUS(1);
  int devices = gpus();
  // Two ranks of each group, both groups on the same devices: grids that fit
  // together.
  uint32_t share = devices == 2 ? 66 : 30;
  Ranks one(2, devices, uint64_t(400) * 4096 * 2, share);
  Ranks two(2, devices, uint64_t(400) * 4096 * 2, share);
  Case c;
  c.tokens = 400;
  Problem a(one, c, 1), b(two, c, 2);
  Plan planA = a.plan(), planB = b.plan();
  for (int n = 0; n < 300; ++n) {
    // Not the same order on all ranks.
    for (int i = 0; i < 2; ++i)
      for (int rank = 0; rank < 2; ++rank) {
        bool first = (i + rank + n) % 2;
        Ranks &ranks = first ? one : two;
        Problem &p = first ? a : b;
        ranks.use(rank);
        TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(rank), p.argsOf(rank),
                                         first ? planA : planB,
                                         ranks.stream(rank)));
      }
  }
  a.fetch();
  EXPECT_EQ(a.check(), "");
  b.fetch();
  EXPECT_EQ(b.check(), "");
}

TEST(CudaFaults, DifferentCallsAreNamed) {
  NEEDS_GPUS(1);
  for (Protocol protocol : {Protocol::Lines, Protocol::Rows}) {
    Ranks ranks(2, gpus(), uint64_t(300) * 4096 * 2);
    force(ranks, protocol);
    Case three, five;
    three.tokens = 3;
    five.tokens = 5;
    Problem a(ranks, three, 1), b(ranks, five, 2);
    a.run(a.plan());
    for (int rank = 0; rank < 2; ++rank) {
      ranks.use(rank);
      Problem &p = rank ? b : a;
      TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(rank), p.argsOf(rank),
                                       p.plan(), ranks.stream(rank)));
    }
    ranks.synchronize();
    bool named = false;
    for (int rank = 0; rank < 2; ++rank) {
      HostRecord record = ranks.record(rank);
      EXPECT_EQ(record.state, 2u);
      EXPECT_EQ(record.status, 7);
      EXPECT_EQ(record.call, 2u);
      if (record.reporter == rank) {
        named = true;
        EXPECT_EQ(record.peer, 1 - rank);
        EXPECT_EQ(record.word, int(HeaderTokens));
        EXPECT_EQ(record.mine, rank ? 5u : 3u);
        EXPECT_EQ(record.theirs, rank ? 3u : 5u);
      }
    }
    EXPECT_TRUE(named);
    // Sticky: the next call returns at once.
    a.launch(a.plan());
    ranks.synchronize();
  }
}

TEST(CudaFaults, ALateRankIsNamedAtTheDeadline) {
  NEEDS_GPUS(1);
  for (Protocol protocol : {Protocol::Lines, Protocol::Rows}) {
    Ranks ranks(2, gpus(), uint64_t(300) * 4096 * 2);
    force(ranks, protocol);
    ranks.setDeadline(200000000);
    Case c;
    c.tokens = 250;
    Problem a(ranks, c, 1);
    a.run(a.plan());
    ranks.use(0);
    TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(0), a.argsOf(0), a.plan(),
                                     ranks.stream(0)));
    TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(0)));
    EXPECT_EQ(ranks.record(0).state, 2u);
    EXPECT_EQ(ranks.record(0).status, 4);
    EXPECT_EQ(ranks.record(0).peer, 1);
    EXPECT_EQ(ranks.record(0).call, 2u);
    // The other rank was told, and doesn't wait when it comes.
    ranks.use(1);
    TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(1), a.argsOf(1), a.plan(),
                                     ranks.stream(1)));
    TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(1)));
  }
}

TEST(CudaFaults, AWaitingKernelIsToldFromOutside) {
  NEEDS_GPUS(1);
  Ranks ranks(2, gpus(), uint64_t(300) * 4096 * 2);
  ranks.setDeadline(0);
  Case c;
  Problem a(ranks, c, 1);
  a.run(a.plan());
  ranks.use(0);
  TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(0), a.argsOf(0), a.plan(),
                                   ranks.stream(0)));
  cudaStream_t side;
  TANDEM_CHECK_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  TANDEM_CHECK_CUDA(
      launchFail(ranks.endpoint(0), failureWord(5, 0, 1), 3, side));
  TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(0)));
  EXPECT_EQ(ranks.record(0).state, 2u);
  EXPECT_EQ(ranks.record(0).status, 5);
  EXPECT_EQ(ranks.record(0).peer, 1);
  TANDEM_CHECK_CUDA(cudaStreamDestroy(side));
}

/// Who frees memory waits for the kernel, and keeps all other threads from the
/// GPU meanwhile; the host's word gets through.
TEST(CudaFaults, AHostsWordStopsAKernelThatFreeingWaitsFor) {
  NEEDS_GPUS(1);
  Ranks ranks(2, gpus(), uint64_t(300) * 4096 * 2);
  ranks.setDeadline(20000000000);
  Case c;
  Problem a(ranks, c, 1);
  a.run(a.plan());
  ranks.use(0);
  void *memory = nullptr;
  TANDEM_CHECK_CUDA(cudaMalloc(&memory, 4096));
  TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(0), a.argsOf(0), a.plan(),
                                   ranks.stream(0)));
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    __atomic_store_n(&ranks.record(0).stop, failureWord(6, 0, 1),
                     __ATOMIC_RELEASE);
  });
  TANDEM_CHECK_CUDA(cudaFree(memory));
  std::chrono::duration<double> waited = Clock::now() - start;
  host.join();
  EXPECT_GT(waited.count(), 0.2);
  EXPECT_LT(waited.count(), 10.0);
  EXPECT_EQ(ranks.record(0).state, 2u);
  EXPECT_EQ(ranks.record(0).status, 6);
  EXPECT_EQ(ranks.record(0).peer, 1);
  // The next kernel doesn't wait at all.
  TANDEM_CHECK_CUDA(launchExchange(ranks.endpoint(0), a.argsOf(0), a.plan(),
                                   ranks.stream(0)));
  TANDEM_CHECK_CUDA(cudaStreamSynchronize(ranks.stream(0)));
}

int main(int argc, char **argv) {
  // A lazy load may wait for kernels that wait for what is loaded.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  testing::InitGoogleTest(&argc, argv);
  int result = RUN_ALL_TESTS();
  const testing::UnitTest &all = *testing::UnitTest::GetInstance();
  // ctest calls that "skipped".
  if (result == 0 && all.skipped_test_count() > 0 &&
      all.successful_test_count() == 0)
    return 77;
  return result;
}
