//===-- RowMath.cuh - A block's arithmetic on a row -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// docs/runtime.md, "Numbers", on a GPU. Every norm kernel adds a row's squares
// in the order that is fixed here by hidden size and type: so a token's bits
// depend neither on the path nor on the batch around it. To be compiled without
// contraction (--fmad=false).

#ifndef TANDEM_RUNTIME_CUDA_ROWMATH_CUH
#define TANDEM_RUNTIME_CUDA_ROWMATH_CUH

#include "Device.cuh"
#include "Params.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tandem {
namespace cuda {

//===----------------------------------------------------------------------===//
// Element types, a vector of 16 bytes at a time. A stored NaN is canonical.
//===----------------------------------------------------------------------===//

struct F32 {
  using Storage = uint32_t;
  static constexpr int perVector = 4;
  static constexpr int dtype = 0;
  __device__ static float widen(uint32_t bits) { return __uint_as_float(bits); }
  __device__ static uint32_t round(float value) {
    return value != value ? 0x7fc00000u : __float_as_uint(value);
  }
  __device__ static void unpack(uint4 v, float (&out)[4]) {
    out[0] = widen(v.x);
    out[1] = widen(v.y);
    out[2] = widen(v.z);
    out[3] = widen(v.w);
  }
  __device__ static uint4 pack(const float (&in)[4]) {
    return make_uint4(round(in[0]), round(in[1]), round(in[2]), round(in[3]));
  }
  __device__ static uint32_t addWord(uint32_t a, uint32_t b) {
    return __float_as_uint(widen(a) + widen(b));
  }
  __device__ static uint32_t canonicalWord(uint32_t bits) {
    return round(widen(bits));
  }
};

/// Conversions write every NaN as 0x7fff, which is the largest of all as a
/// signed number; every other positive value is below the canonical NaN.
template <uint32_t canonicalPair>
__device__ __forceinline__ uint32_t canonical(uint32_t pair) {
  return __vmins2(pair, canonicalPair);
}

struct BF16 {
  using Storage = uint16_t;
  static constexpr int perVector = 8;
  static constexpr int dtype = 2;
  __device__ static float widen(uint32_t bits) {
    return __uint_as_float(bits << 16);
  }
  __device__ static uint32_t roundPair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  __device__ static uint32_t round(float value) {
    return canonicalWord(roundPair(value, 0.0f)) & 0xffff;
  }
  /// One rounding of the exact sum, as f32's rounded once more is. a * 1 + b,
  /// because an addition is there from 9.0 on only.
  __device__ static uint32_t addWord(uint32_t a, uint32_t b) {
    uint32_t sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(sum)
        : "r"(a), "r"(0x3f803f80u), "r"(b));
    return sum;
  }
  /// One rounding of the exact product, as f32's rounded once more is. a * b
  /// + -0, for the same reason.
  __device__ static uint32_t multiplyWord(uint32_t a, uint32_t b) {
    uint32_t product;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(product)
        : "r"(a), "r"(b), "r"(0x80008000u));
    return product;
  }
  __device__ static uint32_t canonicalWord(uint32_t pair) {
    return canonical<0x7fc07fc0>(pair);
  }
  __device__ static void unpackPair(uint32_t pair, float &low, float &high) {
    low = __uint_as_float(pair << 16);
    high = __uint_as_float(pair & 0xffff0000u);
  }
  __device__ static void unpack(uint4 v, float (&out)[8]) {
    unpackPair(v.x, out[0], out[1]);
    unpackPair(v.y, out[2], out[3]);
    unpackPair(v.z, out[4], out[5]);
    unpackPair(v.w, out[6], out[7]);
  }
  __device__ static uint4 pack(const float (&in)[8]) {
    return make_uint4(canonicalWord(roundPair(in[0], in[1])),
                      canonicalWord(roundPair(in[2], in[3])),
                      canonicalWord(roundPair(in[4], in[5])),
                      canonicalWord(roundPair(in[6], in[7])));
  }
};

struct F16 {
  using Storage = uint16_t;
  static constexpr int perVector = 8;
  static constexpr int dtype = 1;
  __device__ static float widen(uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  __device__ static uint32_t roundPair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  __device__ static uint32_t round(float value) {
    return canonicalWord(roundPair(value, 0.0f)) & 0xffff;
  }
  __device__ static uint32_t addWord(uint32_t a, uint32_t b) {
    uint32_t sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
  }
  __device__ static uint32_t multiplyWord(uint32_t a, uint32_t b) {
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
  }
  __device__ static uint32_t canonicalWord(uint32_t pair) {
    return canonical<0x7e007e00>(pair);
  }
  __device__ static void unpackPair(uint32_t pair, float &low, float &high) {
    low = widen(pair & 0xffff);
    high = widen(pair >> 16);
  }
  __device__ static void unpack(uint4 v, float (&out)[8]) {
    unpackPair(v.x, out[0], out[1]);
    unpackPair(v.y, out[2], out[3]);
    unpackPair(v.z, out[4], out[5]);
    unpackPair(v.w, out[6], out[7]);
  }
  __device__ static uint4 pack(const float (&in)[8]) {
    return make_uint4(canonicalWord(roundPair(in[0], in[1])),
                      canonicalWord(roundPair(in[2], in[3])),
                      canonicalWord(roundPair(in[4], in[5])),
                      canonicalWord(roundPair(in[6], in[7])));
  }
};

/// What is stored goes through this: a NaN that was computed becomes the
/// canonical one.
template <class T>
__device__ __forceinline__ uint4 canonicalVector(uint4 v) {
  return make_uint4(T::canonicalWord(v.x), T::canonicalWord(v.y),
                    T::canonicalWord(v.z), T::canonicalWord(v.w));
}

/// rn(a + b), element by element; its NaNs are not canonical.
template <class T>
__device__ __forceinline__ uint4 addLoosely(uint4 a, uint4 b) {
  return make_uint4(T::addWord(a.x, b.x), T::addWord(a.y, b.y),
                    T::addWord(a.z, b.z), T::addWord(a.w, b.w));
}

/// rn(a + b), element by element.
template <class T>
__device__ __forceinline__ uint4 addVectors(uint4 a, uint4 b) {
  return canonicalVector<T>(addLoosely<T>(a, b));
}

template <class T>
__device__ __forceinline__ float roundTo(float value) {
  return T::widen(T::round(value));
}

//===----------------------------------------------------------------------===//
// Where a row's vectors lie
//===----------------------------------------------------------------------===//

/// A warp holds a slice of 60 vectors, two for each lane: as 128-byte lines,
/// eight lanes to a line, the eighth lane's upper half being the flag. So in
/// each eight lanes seven hold two vectors and the eighth one, whose halves go
/// into two lines. A last slice of 56 vectors or less goes seven vectors to a
/// line, with nothing in the eighth lane.
struct Place {
  /// Vectors of the row; -1: none.
  int32_t first;
  int32_t second;
  /// Of an eighth lane: `first` is cut in halves.
  bool split;
};

__device__ __forceinline__ Place placeOf(int32_t vectors, int32_t slice,
                                         int32_t lane) {
  Place place;
  int32_t base = slice * 60;
  int32_t rest = vectors - base;
  bool eighth = (lane & 7) == 7;
  int32_t packed = lane - (lane >> 3);
  if (rest > 56) {
    place.first = lane < rest ? base + lane : -1;
    place.second = !eighth && 32 + packed < rest ? base + 32 + packed : -1;
    place.split = eighth;
  } else {
    place.first = !eighth && packed < rest ? base + packed : -1;
    place.second = !eighth && 28 + packed < rest ? base + 28 + packed : -1;
    place.split = false;
  }
  return place;
}

/// Lines that a slice takes.
__device__ __forceinline__ int32_t linesOf(int32_t vectors, int32_t slice) {
  int32_t rest = vectors - slice * 60;
  return rest <= 0 ? 0 : rest > 56 ? 8 : (rest + 6) / 7;
}

/// A thread's vectors of a row.
template <int P>
struct Holding {
  int32_t at[2 * P];
};

template <int P>
__device__ __forceinline__ Holding<P> holdingOf(int32_t vectors, int32_t warp,
                                                int32_t warps, int32_t lane) {
  Holding<P> holding;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    Place place = placeOf(vectors, warp + p * warps, lane);
    holding.at[2 * p] = place.first;
    holding.at[2 * p + 1] = place.second;
  }
  return holding;
}

//===----------------------------------------------------------------------===//
// This rank's own memory
//===----------------------------------------------------------------------===//

/// Sixteen bytes from anywhere that elements of `Storage` may lie. Kernels of
/// few tokens spend much of their time on fetching their code: what is rare is
/// kept out of the way.
template <class Storage, bool constant>
__device__ __noinline__ uint4 gather(const char *from) {
  const Storage *p = reinterpret_cast<const Storage *>(from);
  uint4 v = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (int i = 0; i < 16 / static_cast<int>(sizeof(Storage)); ++i) {
    uint32_t next = constant ? __ldg(p + i) : p[i];
    if (sizeof(Storage) == 4) {
      v = make_uint4(v.y, v.z, v.w, next);
    } else {
      v.x = __funnelshift_r(v.x, v.y, 16);
      v.y = __funnelshift_r(v.y, v.z, 16);
      v.z = __funnelshift_r(v.z, v.w, 16);
      v.w = __funnelshift_r(v.w, next, 16);
    }
  }
  return v;
}

template <class Storage>
__device__ __noinline__ void scatter(char *to, uint4 v) {
  Storage *p = reinterpret_cast<Storage *>(to);
#pragma unroll 1
  for (int i = 0; i < 16 / static_cast<int>(sizeof(Storage)); ++i) {
    p[i] = static_cast<Storage>(v.x);
    if (sizeof(Storage) == 4) {
      v = make_uint4(v.y, v.z, v.w, 0);
    } else {
      v.x = __funnelshift_r(v.x, v.y, 16);
      v.y = __funnelshift_r(v.y, v.z, 16);
      v.z = __funnelshift_r(v.z, v.w, 16);
      v.w >>= 16;
    }
  }
}

template <class T>
__device__ __forceinline__ uint4 loadOwn(const char *row, int32_t vector,
                                         bool aligned) {
  const char *from = row + static_cast<int64_t>(vector) * 16;
  if (aligned)
    return *reinterpret_cast<const uint4 *>(from);
  return gather<typename T::Storage, false>(from);
}

template <class T>
__device__ __forceinline__ void storeOwn(char *row, int32_t vector, uint4 v,
                                         bool aligned) {
  char *to = row + static_cast<int64_t>(vector) * 16;
  if (aligned)
    *reinterpret_cast<uint4 *>(to) = v;
  else
    scatter<typename T::Storage>(to, v);
}

template <class T, int P>
__device__ __forceinline__ void loadRow(const Operand &operand, const char *row,
                                        const Holding<P> &holding,
                                        int32_t vectors, uint4 (&out)[2 * P]) {
#pragma unroll
  for (int i = 0; i < 2 * P; ++i) {
    out[i] = make_uint4(0, 0, 0, 0);
    if (holding.at[i] >= 0 && holding.at[i] < vectors)
      out[i] = loadOwn<T>(row, holding.at[i], operand.aligned);
  }
}

template <class T, int P>
__device__ __forceinline__ void
storeRow(const Operand &operand, char *row, const Holding<P> &holding,
         int32_t vectors, const uint4 (&in)[2 * P]) {
#pragma unroll
  for (int i = 0; i < 2 * P; ++i)
    if (holding.at[i] >= 0 && holding.at[i] < vectors)
      storeOwn<T>(row, holding.at[i], in[i], operand.aligned);
}

/// An element at a time: any type and alignment.
template <int n>
__device__ __noinline__ void loadScaleSlowly(const void *data, int32_t dtype,
                                             int64_t at, float *out) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    if (dtype == 0) {
      out[i] = F32::widen(__ldg(static_cast<const uint32_t *>(data) + at + i));
    } else {
      uint32_t bits = __ldg(static_cast<const uint16_t *>(data) + at + i);
      out[i] = dtype == 1 ? F16::widen(bits) : BF16::widen(bits);
    }
  }
}

/// A vector's worth of a gamma of any type. Constant for the call, so the
/// read-only cache may answer.
template <class T>
__device__ __forceinline__ void loadScale(const Scale &scale, int32_t vector,
                                          float (&out)[T::perVector]) {
  constexpr int n = T::perVector;
  if (n == 8 && scale.aligned && scale.dtype == 0) {
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      float four[4];
      F32::unpack(
          __ldg(static_cast<const uint4 *>(scale.data) + 2 * vector + i / 4),
          four);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        out[i + k] = four[k];
    }
    return;
  }
  float slow[n];
  loadScaleSlowly<n>(scale.data, scale.dtype, static_cast<int64_t>(vector) * n,
                     slow);
#pragma unroll
  for (int i = 0; i < n; ++i)
    out[i] = slow[i];
}

/// A vector of a bias, which has the rows' type.
template <class T>
__device__ __forceinline__ uint4 loadBias(const Scale &scale, int32_t vector) {
  const char *from =
      static_cast<const char *>(scale.data) + static_cast<int64_t>(vector) * 16;
  return scale.aligned ? __ldg(reinterpret_cast<const uint4 *>(from))
                       : gather<typename T::Storage, true>(from);
}

//===----------------------------------------------------------------------===//
// Sums over ranks
//===----------------------------------------------------------------------===//

/// tandem_reduction's: max and min propagate NaN and order -0 below +0.
__device__ __forceinline__ float maxOf(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
__device__ __forceinline__ float minOf(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// total = total + next, unrounded.
template <class T>
__device__ __forceinline__ void accumulate(float (&total)[T::perVector],
                                           uint4 next) {
  float values[T::perVector];
  T::unpack(next, values);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    total[i] += values[i];
}

/// The other reductions of two roundings of an element type: max and min are
/// exact; a product of two is rounded once. For three ranks and more, products
/// go through f32 (reduceRanks).
__device__ __forceinline__ float combine(int32_t reduction, float a, float b) {
  return reduction == 0   ? a + b
         : reduction == 1 ? maxOf(a, b)
         : reduction == 2 ? minOf(a, b)
                          : a * b;
}
template <class T>
__device__ __noinline__ uint4 combinePair(int32_t reduction, uint4 a, uint4 b) {
  float x[T::perVector], y[T::perVector];
  T::unpack(a, x);
  T::unpack(b, y);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    x[i] = combine(reduction, x[i], y[i]);
  return T::pack(x);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Sums of the warps, twice so that one barrier a sum is enough. Entries past
/// the last warp stay zero.
struct Partials {
  float4 sums[2][8];
};

/// By the first warp, which is among those that a sum makes wait.
__device__ __forceinline__ void clearPartials(Partials &partials,
                                              uint32_t threads) {
  if (threadIdx.x < 32 && threadIdx.x >= threads / 32)
    for (int turn = 0; turn < 2; ++turn)
      reinterpret_cast<float *>(partials.sums[turn])[threadIdx.x] = 0.0f;
}

/// The sum over a warp, by a butterfly.
__device__ __forceinline__ float sumOverWarp(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

/// The warps' sums by fours.
__device__ __forceinline__ float addPartials(const Partials &partials,
                                             uint32_t turn) {
  // A lane takes four warps, since all of them in each lane are more than
  // shared memory delivers in the time.
  float4 s = partials.sums[turn & 1][threadIdx.x & 7];
  float sum = (s.x + s.y) + (s.z + s.w);
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

/// The sum over all threads of the row, the same bits in each: within a warp a
/// butterfly, then the warps by fours. In two steps, between which there may be
/// something to do while the other warps come.
__device__ __forceinline__ void beginSum(float value, Partials &partials,
                                         uint32_t turn) {
  value = sumOverWarp(value);
  float *mine = reinterpret_cast<float *>(partials.sums[turn & 1]);
  if ((threadIdx.x & 31) == 0)
    mine[threadIdx.x >> 5] = value;
}
__device__ __forceinline__ float endSum(const Partials &partials,
                                        uint32_t &turn, uint32_t threads) {
  barrierOf(threads);
  return addPartials(partials, turn++);
}
__device__ __forceinline__ float sumOverRow(float value, Partials &partials,
                                            uint32_t &turn, uint32_t threads) {
  beginSum(value, partials, turn);
  return endSum(partials, turn, threads);
}

/// The squares of a vector's elements as a balanced tree. Those of 16 bits are
/// exact in f32 (but for the last bits of what is below 1e-19), so that one of
/// two may be multiplied and added at once.
template <class T>
__device__ __forceinline__ float squareSum(const float (&v)[T::perVector]) {
  constexpr int n = T::perVector;
  float q[n];
#pragma unroll
  for (int i = 0; i < n; i += 2) {
    q[i] = v[i] * v[i];
    q[i + 1] = v[i + 1] * v[i + 1];
    q[i] =
        T::dtype == 0 ? q[i] + q[i + 1] : __fmaf_rn(v[i + 1], v[i + 1], q[i]);
  }
#pragma unroll
  for (int step = 2; step < n; step *= 2)
#pragma unroll
    for (int i = 0; i + step < n; i += 2 * step)
      q[i] += q[i + step];
  return q[0];
}

/// 1 / rn(sqrt(rn(rn(sum / length) + epsilon))), rounded.
static __device__ __noinline__ float inverseRmsSlowly(float sum, Length length,
                                                      float epsilon) {
  return __frcp_rn(
      __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, length.value), epsilon)));
}

/// The same where nothing leaves the range of normal numbers; `good` says
/// whether that is so. Straight on from one approximation: every step but the
/// last of each rounding is one correction.
__device__ __forceinline__ float inverseRmsQuickly(float sum, Length length,
                                                   float epsilon, bool &good) {
  // With a rounded reciprocal a quotient needs one correction to be rounded as
  // well (Markstein).
  float quotient = __fmul_rn(sum, length.inverse);
  float rest = __fmaf_rn(-quotient, length.value, sum);
  float square = __fadd_rn(__fmaf_rn(rest, length.inverse, quotient), epsilon);
  // What __fsqrt_rn does.
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(square));
  float root = __fmul_rn(square, inverse);
  root =
      __fmaf_rn(__fmaf_rn(-root, root, square), __fmul_rn(0.5f, inverse), root);
  // The approximation is also one of the root's reciprocal: once corrected it
  // is at most a unit off, and then one more correction rounds it, unless all
  // bits of the root are set (Markstein).
  inverse = __fmaf_rn(__fmaf_rn(-root, inverse, 1.0f), inverse, inverse);
  inverse = __fmaf_rn(__fmaf_rn(-root, inverse, 1.0f), inverse, inverse);
  good = sum > 1e-18f && sum < 1e36f && square < 1e38f &&
         (__float_as_uint(root) & 0x7fffffu) != 0x7fffffu;
  return inverse;
}

__device__ __forceinline__ float inverseRms(float sum, Length length,
                                            float epsilon) {
  bool good;
  float inverse = inverseRmsQuickly(sum, length, epsilon, good);
  return good ? inverse : inverseRmsSlowly(sum, length, epsilon);
}

/// The sum of the squares that this thread holds.
template <class T, int P>
__device__ __forceinline__ float squaresOf(const uint4 (&row)[2 * P]) {
  float sums[2 * P];
#pragma unroll
  for (int i = 0; i < 2 * P; ++i) {
    float values[T::perVector];
    T::unpack(row[i], values);
    sums[i] = squareSum<T>(values);
  }
#pragma unroll
  for (int step = 1; step < 2 * P; step *= 2)
#pragma unroll
    for (int i = 0; i + step < 2 * P; i += 2 * step)
      sums[i] += sums[i + step];
  return sums[0];
}

/// v * k * gamma with the norm's roundings; the gamma has the rows' type.
template <class T>
__device__ __forceinline__ uint4 scaledBy(uint4 v, float inverse,
                                          int32_t rounding, uint4 gamma) {
  float values[T::perVector], factors[T::perVector];
  T::unpack(v, values);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= inverse;
  if constexpr (T::dtype != 0) {
    if (rounding == 0)
      return canonicalVector<T>(make_uint4(
          T::multiplyWord(T::roundPair(values[0], values[1]), gamma.x),
          T::multiplyWord(T::roundPair(values[2], values[3]), gamma.y),
          T::multiplyWord(T::roundPair(values[4], values[5]), gamma.z),
          T::multiplyWord(T::roundPair(values[6], values[7]), gamma.w)));
  }
  T::unpack(gamma, factors);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= factors[i];
  return T::pack(values);
}

/// The same for a gamma in f32, where the rows have 16 bits.
template <class T>
__device__ __forceinline__ uint4 scaledWidely(uint4 v, float inverse,
                                              int32_t rounding, uint4 low,
                                              uint4 high) {
  float values[T::perVector];
  T::unpack(v, values);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= inverse;
  if (rounding == 0) {
#pragma unroll
    for (int i = 0; i < T::perVector; i += 2)
      T::unpackPair(T::roundPair(values[i], values[i + 1]), values[i],
                    values[i + 1]);
  }
  float factors[8];
  F32::unpack(low, reinterpret_cast<float (&)[4]>(factors[0]));
  F32::unpack(high, reinterpret_cast<float (&)[4]>(factors[4]));
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= factors[i];
  return T::pack(values);
}

/// The same for any gamma, out of the way.
template <class T>
__device__ __noinline__ uint4 scaledSlowly(uint4 v, float inverse, Scale gamma,
                                           int32_t rounding, int32_t vector) {
  float values[T::perVector], factors[T::perVector];
  T::unpack(v, values);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= inverse;
  if (rounding == 0)
    T::unpack(T::pack(values), values);
  loadScale<T>(gamma, vector, factors);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    values[i] *= factors[i];
  return T::pack(values);
}

/// norm(s), in place, of the row that the block's `threads` threads hold.
template <class T, int P>
__device__ __forceinline__ void normalize(const NormSpec &norm, Length length,
                                          const Holding<P> &holding,
                                          uint4 (&s)[2 * P], Partials &partials,
                                          uint32_t &turn, uint32_t threads) {
  beginSum(squaresOf<T, P>(s), partials, turn);
  // While the other warps come. Lanes without a vector get the first one's.
  bool usual = norm.gamma.aligned && norm.gamma.dtype == T::dtype;
  uint4 gamma[2 * P];
  if (usual) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      gamma[i] = __ldg(static_cast<const uint4 *>(norm.gamma.data) +
                       max(holding.at[i], 0));
  }
  float inverse =
      inverseRms(endSum(partials, turn, threads), length, norm.epsilon);
#pragma unroll
  for (int i = 0; i < 2 * P; ++i)
    if (holding.at[i] >= 0)
      s[i] = usual ? scaledBy<T>(s[i], inverse, norm.rounding, gamma[i])
                   : scaledSlowly<T>(s[i], inverse, norm.gamma, norm.rounding,
                                     holding.at[i]);
}

/// What is done to a row: everything from the rounded sum on. `residual` was
/// loaded before, so that the load is not waited for here.
template <class T, int P>
__device__ __forceinline__ void
finishRow(const NormParams &a, uint32_t row, const Holding<P> &holding,
          uint4 (&s)[2 * P], const uint4 (&residual)[2 * P], Partials &partials,
          uint32_t &turn, uint32_t threads) {
  int32_t vectors = a.vectors;
  if (a.sumOut.data)
    storeRow<T, P>(a.sumOut, a.sumOut.row(row), holding, vectors, s);
  if (a.bias.data) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      if (holding.at[i] >= 0)
        s[i] = addVectors<T>(s[i], loadBias<T>(a.bias, holding.at[i]));
  }
  if (a.pre.gamma.data)
    normalize<T, P>(a.pre, a.length, holding, s, partials, turn, threads);
  if (a.residual.data) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      s[i] = addVectors<T>(s[i], residual[i]);
  }
  if (a.residualOut.data)
    storeRow<T, P>(a.residualOut, a.residualOut.row(row), holding, vectors, s);
  normalize<T, P>(a.norm, a.length, holding, s, partials, turn, threads);
  storeRow<T, P>(a.out, a.out.row(row), holding, vectors, s);
}

} // namespace cuda
} // namespace tandem

#endif
