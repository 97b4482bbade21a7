//===-- Pair.cuh - Lines between two ranks, the usual call ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The protocol of Lines.cuh, the same bytes at the same places, for what nearly
// all calls between two ranks are: aligned rows, and gammas of the rows' type
// or f32. A call of a token takes less time than fetching the code and the
// launch parameters of a kernel that can do everything, so this one can't; and
// what most calls don't have is in instances of its own.

#ifndef TANDEM_RUNTIME_CUDA_PAIR_CUH
#define TANDEM_RUNTIME_CUDA_PAIR_CUH

#include "Lines.cuh"
#include "Table.h"

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

/// Constant memory, which may be loaded before the dependency wait, and is. Not
/// by the instruction for it, which ptxas would move behind a barrier.
__device__ __forceinline__ uint4 loadConstant(const char *from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ uint32_t touchConstant(const char *from) {
  uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/// Without a branch.
__device__ __forceinline__ void storeIf(bool there, char *to, uint4 v) {
  asm volatile("{\n"
               ".reg .pred there;\n"
               "setp.ne.u32 there, %5, 0;\n"
               "@there st.global.v4.u32 [%0], {%1, %2, %3, %4};\n"
               "}" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(uint32_t(there))
               : "memory");
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
  /// Where a row is spread over a cluster: all warps' sums are there.
  uint64_t summed[2];
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

  __device__ __forceinline__ void find(int32_t vectors, int32_t warp,
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
  /// Means nothing where there is no vector.
  __device__ __forceinline__ uint32_t offset(int i) const {
    return static_cast<uint32_t>(at[i]);
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
        v[i] = *reinterpret_cast<const uint4 *>(row + offset(i));
    }
  }

  /// NaNs become canonical.
  template <class T>
  __device__ __forceinline__ void store(bool there, char *row,
                                        const uint4 (&v)[2 * P]) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      storeIf(there && at[i] >= 0, row + offset(i), canonicalVector<T>(v[i]));
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

/// The gamma of a row, `wide` if it is in f32 and the rows in 16 bits.
template <class T, int P, bool wide>
struct PairGamma {
  uint4 v[wide ? 4 * P : 2 * P];

  __device__ __forceinline__ void load(const PairPlace<P> &place,
                                       const char *gamma) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      if constexpr (wide) {
        v[2 * i] = v[2 * i + 1] = make_uint4(0, 0, 0, 0);
        if (place.at[i] >= 0) {
          v[2 * i] = loadConstant(gamma + 2 * place.offset(i));
          v[2 * i + 1] = loadConstant(gamma + 2 * place.offset(i) + 16);
        }
      } else {
        v[i] = make_uint4(0, 0, 0, 0);
        if (place.at[i] >= 0)
          v[i] = loadConstant(gamma + place.offset(i));
      }
    }
  }

  /// Fetches a word of each of this thread's vectors. The result counts for
  /// nothing, but has to be used somewhere, or nothing is fetched.
  __device__ static __forceinline__ uint32_t touch(const PairPlace<P> &place,
                                                   const char *gamma) {
    uint32_t seen = 0;
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      if (place.at[i] >= 0)
        seen ^= touchConstant(gamma + (wide ? 2 : 1) * place.offset(i));
    return seen;
  }

  __device__ __forceinline__ void scale(float inverse, int32_t rounding,
                                        uint4 (&s)[2 * P]) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      if constexpr (wide)
        s[i] = scaledWidely<T>(s[i], inverse, rounding, v[2 * i], v[2 * i + 1]);
      else
        s[i] = scaledBy<T>(s[i], inverse, rounding, v[i]);
    }
  }
};

/// A row that each thread keeps its vectors of in the block's dynamic shared
/// memory (keptBytesOf), by copies that take no registers.
template <int P>
struct PairKept {
  uint4 *mine;
  /// Vectors between this thread's.
  uint32_t step;

  __device__ __forceinline__ PairKept(uint32_t threads) : step(threads) {
    extern __shared__ uint4 keptVectors[];
    mine = keptVectors + threadIdx.x;
  }

  __device__ __forceinline__ void fetch(const PairPlace<P> &place,
                                        const char *row) const {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      if (place.at[i] >= 0)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         sharedAddress(mine + i * step)),
                     "l"(row + place.offset(i))
                     : "memory");
  }
  /// What was fetched last.
  __device__ __forceinline__ void load(const PairPlace<P> &place,
                                       uint4 (&out)[2 * P]) const {
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      out[i] = make_uint4(0, 0, 0, 0);
      if (place.at[i] >= 0)
        out[i] = mine[i * step];
    }
  }
};

/// The sum of a row that is spread over the `blocks` of a cluster, `warp` being
/// this one's number among those of the row: the same partial sums in the same
/// places as in one block (beginSum, endSum), in each of the blocks. There is
/// one row to a cluster, so that each barrier is used once, and no block ends
/// while others store to it, since it waits for that.
__device__ __forceinline__ void beginSpreadSum(float value, PairShared &shared,
                                               uint32_t turn, int32_t warp,
                                               uint32_t blocks) {
#if __CUDA_ARCH__ >= 900
  value = sumOverWarp(value);
  uint32_t lane = threadIdx.x & 31;
  float *sums = reinterpret_cast<float *>(shared.partials.sums[turn]);
  if (lane < blocks)
    storeShared(sums + warp, value, &shared.summed[turn], lane);
#endif
}
__device__ __forceinline__ float endSpreadSum(PairShared &shared,
                                              uint32_t &turn) {
#if __CUDA_ARCH__ >= 900
  waitForBytes(&shared.summed[turn]);
#endif
  return addPartials(shared.partials, turn++);
}

/// The sum over the row, which is the block's or, if `spread`, the cluster's.
template <bool spread>
__device__ __forceinline__ float
sumOverPairRow(float value, const PairParams &q, PairShared &shared,
               uint32_t &turn, int32_t warp) {
  if constexpr (spread) {
    beginSpreadSum(value, shared, turn, warp, q.spread);
    return endSpreadSum(shared, turn);
  } else {
    return sumOverRow(value, shared.partials, turn, q.threads);
  }
}

/// `more`: with a bias, or with the sum as an output. `wide`: gammas in f32,
/// rows in 16 bits. `spread`: a row to a cluster of blocks, for calls of few
/// rows: a multiprocessor takes as long to load, push and store a row as it
/// takes the link.
template <class T, int P, PairTail tail, bool more, bool wide,
          bool spread = false>
__global__ void __maxnreg__(spread ? spreadRegisters : pairRegisters(P))
    pairKernel(const __grid_constant__ ExchangeParams p) {
  constexpr bool norm = tail != PairTail::Sum;
  constexpr bool sandwich = tail == PairTail::Sandwich;
  // Where there are no registers for the residual until it is needed.
  constexpr bool keep = keepsResidual(sandwich, wide) && !spread;
  __shared__ PairShared shared;
  const PairParams &q = p.pair;
  // The others have something to do while they fetch what they fetch first.
  uint32_t touched = keep ? touchWords(q) : 0;
  int32_t lane = threadIdx.x & 31;
  int32_t warp = threadIdx.x >> 5;
  int32_t warps = static_cast<int32_t>(q.warps);
  const uint32_t &threads = q.threads;
  clearPartials(shared.partials, spread ? threads * q.spread : threads);
  if (threadIdx.x == 0) {
    initBarrier(&shared.done, q.warps);
    shared.failed = 0;
#if __CUDA_ARCH__ >= 900
    if constexpr (spread) {
      for (uint64_t &barrier : shared.summed)
        initBarrier(&barrier);
      fenceToCluster();
      for (uint64_t &barrier : shared.summed)
        expectBytes(&barrier, q.spread * q.warps * 4);
    }
#endif
  }
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  if constexpr (spread)
    arriveAtCluster();
#endif
  // The warp among those that the row has, and its place.
  int32_t rowWarp = warp;
  PairPlace<P> place;
  auto findPlace = [&] {
#if __CUDA_ARCH__ >= 900
    if constexpr (spread)
      rowWarp += static_cast<int32_t>(blockInCluster()) * warps;
#endif
    place.find(q.vectors, rowWarp, warps, lane);
  };
  // Before the wait below only where that was measured to be quicker.
  if constexpr (spread && sandwich)
    findPlace();
#if __CUDA_ARCH__ >= 900
  // Before anything is stored to other blocks, and before gammas are loaded,
  // since the wait empties the L1 cache.
  if constexpr (spread)
    waitForCluster();
#endif
  if (warp == warps) {
    keepPairBooks(p, shared);
    return;
  }
  if constexpr (!(spread && sandwich))
    findPlace();
  uint32_t row = blockIdx.x;
#if __CUDA_ARCH__ >= 900
  if constexpr (spread)
    row = clusterInGrid();
#endif
  // Into the L1 cache, if there are no registers for them until they are
  // needed.
  PairGamma<T, P, wide> early, preEarly;
  if constexpr (spread) {
    early.load(place, q.gamma);
    if constexpr (sandwich)
      preEarly.load(place, q.preGamma);
  } else if constexpr (norm) {
    touched ^= PairGamma<T, P, wide>::touch(place, q.gamma);
    if constexpr (sandwich)
      touched ^= PairGamma<T, P, wide>::touch(place, q.preGamma);
  }

  // Whatever can be done later is: what the link waits for goes first.
  waitForPreviousKernel();
  uint64_t epoch = loadWord(&q.control->epoch);
  uint64_t failure = loadWord(&q.control->failure);
  uint4 x[2 * P];
  place.load(q.input + row * q.inputStride, x);
  // No flag is zero: once the group has failed.
  uint64_t flag = failure ? 0 : flagOf(epoch, q.hash);
  if (flag)
    place.push(q.outbox + slotOf(epoch) * q.slotBytes +
                   uint64_t(row) * q.rowLines,
               flag, x);
  arriveAtControl();
  if constexpr (more)
    if (q.bias)
      touched ^= PairGamma<T, P, false>::touch(place, q.bias);
  PairKept<P> kept(threads);
  uint4 residual[2 * P];
  auto fetchResidual = [&] {
    if (!norm || !q.residual)
      return;
    const char *from = q.residual + row * q.residualStride;
    if constexpr (keep)
      kept.fetch(place, from);
    else
      place.load(from, residual);
  };
  fetchResidual();
  if (!keep)
    touched ^= touchWords(q);
  keepWords(touched, q.rows);
  uint32_t sums = 0;
  while (true) {
    // Two sums a row, or one.
    uint32_t turn = sandwich ? 0 : sums++;
    renew(place.at);
    uint4 s[2 * P];
    // The slot is in the flag, too.
    const char *from =
        q.inbox + slotOf(flag >> 16) * q.slotBytes + uint64_t(row) * q.rowLines;
#pragma unroll 1
    for (uint32_t looks = 1; !place.look(from, flag, s); ++looks) {
      if (looks % looksBetween == 0 && shared.failed)
        flag = 0;
      if (!flag)
        break;
    }
    place.unfold(s);
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      s[i] = addLoosely<T>(x[i], s[i]);
    if constexpr (!norm) {
      place.template store<T>(true, q.out + row * q.outStride, s);
    } else {
      if constexpr (more) {
        place.template store<T>(q.sumOut, q.sumOut + row * q.sumOutStride, s);
        if (q.bias) {
#pragma unroll
          for (int i = 0; i < 2 * P; ++i)
            if (place.at[i] >= 0)
              s[i] =
                  addLoosely<T>(s[i], loadConstant(q.bias + place.offset(i)));
        }
      }
      PairGamma<T, P, wide> gamma;
      if constexpr (sandwich) {
        float squares = squaresOf<T, P>(s);
        if constexpr (spread)
          gamma = preEarly;
        else
          gamma.load(place, q.preGamma);
        float inverse = inverseRms(
            sumOverPairRow<spread>(squares, q, shared, turn, rowWarp), q.length,
            q.preEpsilon);
        gamma.scale(inverse, q.preRounding, s);
        // What isn't of the row stays zero, whatever the inverse is.
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          if (place.at[i] < 0)
            s[i] = make_uint4(0, 0, 0, 0);
      }
      if (q.residual) {
        if constexpr (keep)
          kept.load(place, residual);
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          s[i] = addLoosely<T>(s[i], residual[i]);
      }
      float squares = squaresOf<T, P>(s);
      if constexpr (spread)
        gamma = early;
      else
        gamma.load(place, q.gamma);
      bool good;
      float sum = sumOverPairRow<spread>(squares, q, shared, turn, rowWarp);
      float inverse = inverseRmsQuickly(sum, q.length, q.epsilon, good);
      // While that is computed, and not before: shared memory is in demand. A
      // sum of squares isn't below zero, which ptxas can't know.
      place.template store<T>(q.residualOut && !(sum < 0.0f),
                              q.residualOut + row * q.residualOutStride, s);
      if (!good)
        inverse = inverseRmsSlowly(sum, q.length, q.epsilon);
      gamma.scale(inverse, q.rounding, s);
      place.template store<T>(true, q.out + row * q.outStride, s);
    }
    if constexpr (spread)
      break;
    // Each further row is pushed when the one before is done, so that rows
    // arrive one after another.
    row += q.grid;
    if (row >= q.rows)
      break;
    place.load(q.input + row * q.inputStride, x);
    if (flag)
      place.push(q.outbox + slotOf(flag >> 16) * q.slotBytes +
                     uint64_t(row) * q.rowLines,
                 flag, x);
    fetchResidual();
  }
  // All lanes have stored; the books' warp waits for that.
  __syncwarp();
  if (lane == 0)
    arriveAt(&shared.done);
}

} // namespace cuda
} // namespace tandem

#endif
