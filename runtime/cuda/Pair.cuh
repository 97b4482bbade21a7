//===-- Pair.cuh - Lines between two ranks, the usual call ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The protocol of Lines.cuh, the same bytes at the same places, for what nearly
// all calls between two ranks are: aligned rows, a gamma of the rows' type, no
// bias. A call of a token takes less time than fetching the code and the launch
// parameters of a kernel that can do everything, so this one can't.

#ifndef TANDEM_RUNTIME_CUDA_PAIR_CUH
#define TANDEM_RUNTIME_CUDA_PAIR_CUH

#include "Lines.cuh"

namespace tandem {
namespace cuda {

enum class PairTail {
  /// residual, norm
  Norm,
  /// norm, residual, norm
  Sandwich,
  /// the sum alone
  Sum,
};

/// Constant memory, which may be loaded before the dependency wait, and is.
__device__ __forceinline__ uint4 loadConstant(const char *from) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Keeps the compiler from computing something of these before a loop over
/// rows, where it would take registers that there aren't.
template <int n, class Word>
__device__ __forceinline__ void renew(Word (&v)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    asm volatile("" : "+r"(v[i]));
}

/// What the warps of a block tell each other.
struct PairShared {
  Partials partials;
  /// An arrival of each warp that has stored its last.
  uint64_t done;
  /// The books' warp has found that there is nothing to wait for any more.
  volatile uint32_t failed;
};

/// Several warps wait for the peer, and none of them asks whether that makes
/// sense: the books' warp, which waits for them, does.
constexpr uint32_t looksBetween = 64;

/// Where the vectors of a thread lie, in a row and in its lines.
template <int P>
struct PairPlace {
  /// Bytes from the row's beginning; negative: none.
  int32_t at[2 * P];
  /// Bytes from the beginning of the row's lines to this thread's part of the
  /// first line of a slice; the others' follow at every 512 bytes.
  uint32_t lineAt[P];
  /// Bit i: the slice has the line of which vector i's place is a part. Bit
  /// 8 + k: an eighth lane, which has the flags, has a vector cut in halves.
  uint32_t bits;

  __device__ __forceinline__ PairPlace(int32_t vectors, int32_t warp,
                                       int32_t warps, int32_t lane) {
    bits = 0;
#pragma unroll
    for (int k = 0; k < P; ++k) {
      int32_t slice = warp + k * warps;
      Place place = placeOf(vectors, slice, lane);
      at[2 * k] = place.first < 0 ? -1 : place.first * 16;
      at[2 * k + 1] = place.second < 0 ? -1 : place.second * 16;
      lineAt[k] = static_cast<uint32_t>(slice) * 1024 + lane * 16;
      int32_t lines = linesOf(vectors, slice);
      bits |= uint32_t((lane >> 3) < lines) << (2 * k) |
              uint32_t((lane >> 3) + 4 < lines) << (2 * k + 1) |
              uint32_t(place.split) << (8 + k);
    }
  }

  __device__ __forceinline__ bool eighth() const {
    return (threadIdx.x & 7) == 7;
  }
  __device__ __forceinline__ bool line(int i) const { return bits >> i & 1; }
  __device__ __forceinline__ bool split(int k) const {
    return bits >> (8 + k) & 1;
  }

  __device__ __forceinline__ void load(const char *row,
                                       uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      v[i] = make_uint4(0, 0, 0, 0);
      if (at[i] >= 0)
        v[i] = *reinterpret_cast<const uint4 *>(row + at[i]);
    }
  }

  __device__ __forceinline__ void loadGamma(const char *gamma,
                                            uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      v[i] = make_uint4(0, 0, 0, 0);
      if (at[i] >= 0)
        v[i] = loadConstant(gamma + at[i]);
    }
  }

  /// Fetches a word of each of this thread's vectors. The result counts for
  /// nothing, but has to be used somewhere, or nothing is fetched.
  __device__ __forceinline__ uint32_t touch(const char *constant) const {
    uint32_t seen = 0;
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      if (at[i] >= 0) {
        uint32_t word;
        asm volatile("ld.global.nc.u32 %0, [%1];"
                     : "=r"(word)
                     : "l"(constant + at[i]));
        seen ^= word;
      }
    return seen;
  }

  __device__ __forceinline__ void store(char *row,
                                        const uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      if (at[i] >= 0)
        *reinterpret_cast<uint4 *>(row + at[i]) = v[i];
  }

  __device__ __forceinline__ void push(char *lines0, uint64_t flag,
                                       const uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      uint4 low = v[2 * k], high = v[2 * k + 1];
      if (eighth()) {
        high = vectorOf(highHalf(low), flag);
        low = vectorOf(lowHalf(low), flag);
      }
      char *to = lines0 + lineAt[k];
      if (line(2 * k))
        storeVector(to, low);
      if (line(2 * k + 1))
        storeVector(to + 512, high);
    }
  }

  /// Loads what is there of a row; true if it is all there.
  __device__ __forceinline__ bool look(const char *lines0, uint64_t flag,
                                       uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const char *from = lines0 + lineAt[k];
      v[2 * k] = v[2 * k + 1] = make_uint4(0, 0, 0, 0);
      if (line(2 * k))
        v[2 * k] = loadVector(from);
      if (line(2 * k + 1))
        v[2 * k + 1] = loadVector(from + 512);
    }
    bool there = true;
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      there &= !line(i) || highHalf(v[i]) == flag;
    return __all_sync(0xffffffffu, there || !eighth());
  }

  /// Makes lines vectors again.
  __device__ __forceinline__ void unfold(uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int k = 0; k < P; ++k)
      if (eighth()) {
        v[2 * k] = split(k) ? vectorOf(lowHalf(v[2 * k]), lowHalf(v[2 * k + 1]))
                            : make_uint4(0, 0, 0, 0);
        v[2 * k + 1] = make_uint4(0, 0, 0, 0);
      }
  }
};

/// The books of Lines.cuh. This warp also waits for the others' last stores,
/// and looks around for them if that takes long.
__device__ __forceinline__ void keepPairBooks(const ExchangeParams &p,
                                              PairShared &shared) {
  Call call = keepBooks(p);
  // Whatever the others still wait for.
  if (call.failed)
    shared.failed = 1;
  Patience patience;
  while (!__all_sync(0xffffffffu, haveAllArrived(&shared.done))) {
    if (!call.failed) {
      call.failed = patience.isOver(p, call.epoch, 1 - p.rank);
      if (call.failed)
        shared.failed = 1;
    }
  }
  letNextKernelStart();
}

template <class T, int P, PairTail tail>
__global__ void __maxnreg__(pairRegisters(P))
    pairKernel(const __grid_constant__ ExchangeParams p) {
  __shared__ PairShared shared;
  const PairParams &q = p.pair;
  int32_t lane = threadIdx.x & 31;
  int32_t warp = threadIdx.x >> 5;
  int32_t warps = static_cast<int32_t>(q.warps);
  const uint32_t threads = q.warps * 32;
  clearPartials(shared.partials, threads);
  if (threadIdx.x == 0) {
    initBarrier(&shared.done, q.warps);
    shared.failed = 0;
  }
  __syncthreads();
  if (warp == warps) {
    keepPairBooks(p, shared);
    return;
  }
  PairPlace<P> place(q.vectors, warp, warps, lane);
  uint32_t row = blockIdx.x;
  // Into the L1 cache, since there are no registers for them until they are
  // needed.
  uint32_t touched = 0;
  if (tail != PairTail::Sum)
    touched = place.touch(q.gamma);
  if (tail == PairTail::Sandwich)
    touched ^= place.touch(q.preGamma);

  // Whatever can be done later is: what the link waits for goes first.
  waitForPreviousKernel();
  uint64_t epoch = loadWord(&q.control->epoch);
  bool failed = loadWord(&q.control->failure) != 0;
  uint4 x[2 * P];
  place.load(q.input + row * q.inputStride, x);
  uint64_t flag = flagOf(epoch, q.hash);
  uint64_t slot = slotOf(epoch) ? q.slotBytes : 0;
  char *outbox = q.outbox + slot;
  const char *inbox = q.inbox + slot;
  if (!failed)
    place.push(outbox + uint64_t(row) * q.rowLines, flag, x);
  arriveAtControl();
  uint4 residual[2 * P];
  if (tail != PairTail::Sum && q.residual)
    place.load(q.residual + row * q.residualStride, residual);
  touchParams(q, q.rows, touched);
  uint32_t turn = 0;
  while (true) {
    renew(place.at);
    uint4 s[2 * P];
    const char *from = inbox + uint64_t(row) * q.rowLines;
#pragma unroll 1
    for (uint32_t looks = 1; !place.look(from, flag, s); ++looks) {
      if (looks % looksBetween == 0 && shared.failed)
        failed = true;
      if (failed)
        break;
    }
    place.unfold(s);
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      s[i] = addLoosely<T>(x[i], s[i]);
    if constexpr (tail == PairTail::Sum) {
#pragma unroll
      for (int i = 0; i < 2 * P; ++i)
        s[i] = canonicalVector<T>(s[i]);
      place.store(q.out + row * q.outStride, s);
    } else {
      if constexpr (tail == PairTail::Sandwich) {
        beginSum(squaresOf<T, P>(s), shared.partials, turn);
        uint4 pre[2 * P];
        place.loadGamma(q.preGamma, pre);
        float inverse = inverseRms(endSum(shared.partials, turn, threads),
                                   q.length, q.preEpsilon);
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          if (place.at[i] >= 0)
            s[i] = scaledBy<T>(s[i], inverse, q.preRounding, pre[i]);
      }
      if (q.residual)
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          s[i] = addLoosely<T>(s[i], residual[i]);
      beginSum(squaresOf<T, P>(s), shared.partials, turn);
      // While the other warps come.
      uint4 gamma[2 * P];
      place.loadGamma(q.gamma, gamma);
      if (q.residualOut) {
        uint4 r[2 * P];
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          r[i] = canonicalVector<T>(s[i]);
        place.store(q.residualOut + row * q.residualOutStride, r);
      }
      float inverse = inverseRms(endSum(shared.partials, turn, threads),
                                 q.length, q.epsilon);
#pragma unroll
      for (int i = 0; i < 2 * P; ++i)
        s[i] = scaledBy<T>(s[i], inverse, q.rounding, gamma[i]);
      place.store(q.out + row * q.outStride, s);
    }
    // Each further row is pushed when the one before is done, so that rows
    // arrive one after another.
    row += gridDim.x;
    if (row >= q.rows)
      break;
    place.load(q.input + row * q.inputStride, x);
    if (!failed)
      place.push(outbox + uint64_t(row) * q.rowLines, flag, x);
    if (tail != PairTail::Sum && q.residual)
      place.load(q.residual + row * q.residualStride, residual);
  }
  // All lanes have stored; the books' warp waits for that.
  __syncwarp();
  if (lane == 0)
    arriveAt(&shared.done);
}

} // namespace cuda
} // namespace tandem

#endif
