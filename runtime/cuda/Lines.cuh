//===-- Lines.cuh - Few tokens: flags inside the lines ----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Everything to everybody, in lines of 120 bytes of data and an 8-byte flag
// (or, where lines may come apart, elements of 8 and 8). No fence, no second
// message: what arrives says itself that it has. A row is pushed before it or
// any later one is waited for, so that ranks never wait in a circle.

#ifndef TANDEM_RUNTIME_CUDA_LINES_CUH
#define TANDEM_RUNTIME_CUDA_LINES_CUH

#include "RowMath.cuh"
#include "Wait.cuh"

namespace tandem {
namespace cuda {

/// Registers a thread may have: what of a block's threads fit is up to it.
constexpr int registersFor(int pairs) { return pairs == 1 ? 48 : 96; }
/// In worlds of two: four blocks of 4096 elements in 16 bits fit on a
/// multiprocessor of 65,536.
constexpr int pairRegisters(int pairs) {
  return pairs == 1 ? 48 : pairs == 2 ? 80 : 96;
}
/// Where a block has its multiprocessor nearly to itself.
constexpr int spreadRegisters = 96;

/// Reads a word of each line of the gammas, so that they lie in the L1 cache
/// when the norm needs them. Never stores anything.
__device__ __forceinline__ void touchScale(const Scale &scale, uint32_t bytes,
                                           uint32_t &seen) {
  if (!scale.data || !scale.aligned)
    return;
  // A block has more threads than a gamma has lines.
  uint32_t at = threadIdx.x * 128;
  if (at < bytes)
    seen ^= __ldg(reinterpret_cast<const uint32_t *>(
        static_cast<const char *>(scale.data) + at));
}

/// Reads a word of each 64 bytes of launch parameters, so that all of them are
/// fetched at a time instead of one by one on the way of the data. The result
/// goes to keepWords.
template <class Params>
__device__ __forceinline__ uint32_t touchWords(const Params &p) {
  const uint32_t *words = reinterpret_cast<const uint32_t *>(&p);
  uint32_t seen = 0;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(Params) / 4; i += 16)
    seen ^= words[i];
  return seen;
}
/// Keeps the fetching of what was `seen`. `rows` isn't 0, which the compiler
/// can't know.
__device__ __forceinline__ void keepWords(uint32_t seen, uint32_t rows) {
  if (seen == 0x9e3779b9u && rows == 0)
    asm volatile("trap;");
}
template <class Params>
__device__ __forceinline__ void touchParams(const Params &p, uint32_t rows) {
  keepWords(touchWords(p), rows);
}

/// While there is something else to wait for. The loads aren't waited for
/// before keepWords.
template <class T>
__device__ __forceinline__ uint32_t touchGammas(const NormParams &norm) {
  uint32_t elements = static_cast<uint32_t>(norm.vectors) * T::perVector;
  uint32_t seen = 0;
  touchScale(norm.pre.gamma, elements * (norm.pre.gamma.dtype ? 2 : 4), seen);
  touchScale(norm.norm.gamma, elements * (norm.norm.gamma.dtype ? 2 : 4), seen);
  return seen;
}
/// Piece `row` of the input or of an output, and how many vectors it has.
struct Piece {
  uint32_t row;
  int32_t first;
  int32_t vectors;
};
static __device__ __noinline__ Piece cutPieceOf(uint32_t pieces,
                                                int32_t vectors,
                                                int32_t rowVectors,
                                                uint32_t index) {
  uint32_t row = index / pieces;
  int32_t first = static_cast<int32_t>(index - row * pieces) * vectors;
  int32_t rest = rowVectors - first;
  return {row, first, rest < vectors ? rest : vectors};
}
__device__ __forceinline__ Piece pieceOf(const ExchangeParams &p,
                                         uint32_t index) {
  int32_t vectors = static_cast<int32_t>(p.shape.vectors);
  if (p.pieces == 1)
    return {index, 0, vectors};
  return cutPieceOf(p.pieces, vectors, p.rowVectors, index);
}
__device__ __forceinline__ char *addressOf(const Operand &operand,
                                           const Piece &piece) {
  return operand.row(piece.row) + static_cast<int64_t>(piece.first) * 16;
}

/// The inboxes of lines, or of elements.
template <class T, int P, bool whole, bool pair>
struct LineEnd {
  const ExchangeParams &p;
  const Call &call;
  const Holding<P> &holding;
  int32_t lane;
  /// Offsets of this thread's parts of lines in a row; negative: none.
  int32_t lines[2 * P];
  bool split[P];

  __device__ __forceinline__ LineEnd(const ExchangeParams &p, const Call &call,
                                     const Holding<P> &holding, int32_t warp,
                                     int32_t lane)
      : p(p), call(call), holding(holding), lane(lane) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
      int32_t slice = warp + i / 2 * static_cast<int32_t>(p.shape.warps);
      int32_t line = (i & 1) * 4 + (lane >> 3);
      int32_t vectors = static_cast<int32_t>(p.shape.vectors);
      lines[i] = line < linesOf(vectors, slice)
                     ? (slice * 8 + line) * static_cast<int32_t>(lineBytes) +
                           (lane & 7) * 16
                     : -1;
      split[i / 2] = (lane & 7) == 7 && vectors - slice * 60 > 56;
    }
  }

  __device__ __forceinline__ uint64_t rowAt(uint32_t row) const {
    return static_cast<uint64_t>(row) *
           (whole ? p.shape.lines * lineBytes : p.shape.vectors * 32);
  }

  __device__ __forceinline__ char *inboxOf(int32_t rank, int32_t from) const {
    return p.regions[rank] + p.layout.lineAt(call.slot, rank, from);
  }

  __device__ __forceinline__ void push(uint32_t row,
                                       const uint4 (&v)[2 * P]) const {
    for (int32_t n = 0; n < (pair ? 1 : p.world - 1); ++n) {
      int32_t peer = peerOf(p, n);
      char *to = inboxOf(peer, p.rank) + rowAt(row);
      if (whole) {
#pragma unroll
        for (int i = 0; i < 2 * P; ++i) {
          uint4 out = v[i];
          if ((lane & 7) == 7)
            out = vectorOf((i & 1) ? highHalf(v[i & ~1]) : lowHalf(v[i]),
                           call.flag);
          int32_t at = lines[i];
          if (at >= 0)
            storeVector(to + at, out);
        }
      } else {
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          if (holding.at[i] >= 0) {
            storeElement(to + holding.at[i] * 32, lowHalf(v[i]), call.flag);
            storeElement(to + holding.at[i] * 32 + 16, highHalf(v[i]),
                         call.flag);
          }
      }
    }
  }

  /// Loads what is there of a peer's row; true if it is all there. The lanes
  /// together: one lane sees the flags of seven others' vectors.
  __device__ __forceinline__ bool look(const char *from,
                                       uint4 (&v)[2 * P]) const {
    bool there = true;
    if (whole) {
#pragma unroll
      for (int i = 0; i < 2 * P; ++i) {
        int32_t at = lines[i];
        v[i] = at >= 0 ? loadVector(from + at) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < 2 * P; ++i)
        if ((lane & 7) == 7 && lines[i] >= 0)
          there &= highHalf(v[i]) == call.flag;
#pragma unroll
      for (int k = 0; k < P; ++k)
        if ((lane & 7) == 7) {
          v[2 * k] = split[k]
                         ? vectorOf(lowHalf(v[2 * k]), lowHalf(v[2 * k + 1]))
                         : make_uint4(0, 0, 0, 0);
          v[2 * k + 1] = make_uint4(0, 0, 0, 0);
        }
    } else {
#pragma unroll
      for (int i = 0; i < 2 * P; ++i) {
        v[i] = make_uint4(0, 0, 0, 0);
        if (holding.at[i] >= 0) {
          uint64_t low, high, flag, flag2;
          loadElement(from + holding.at[i] * 32, low, flag);
          loadElement(from + holding.at[i] * 32 + 16, high, flag2);
          v[i] = vectorOf(low, high);
          there &= flag == call.flag && flag2 == call.flag;
        }
      }
    }
    return __all_sync(0xffffffffu, there);
  }

  /// Waits for row `row` of rank `from` and loads it.
  __device__ __forceinline__ void wait(int32_t from, uint32_t row, Call &state,
                                       uint4 (&v)[2 * P]) const {
    const char *at = inboxOf(p.rank, from) + rowAt(row);
    Patience patience;
    while (!look(at, v)) {
      if (state.failed)
        return;
      state.failed = patience.isOver(p, call.epoch, from);
    }
  }

  /// True if vector slot i of a peer's row is there; looks at flags alone.
  __device__ __forceinline__ bool hasFlag(const char *from, int i) const {
    if (whole) {
      int32_t at = (lane & 7) == 7 ? lines[i] : -1;
      return at < 0 || loadWord(from + at + 8) == call.flag;
    }
    if (holding.at[i] < 0)
      return true;
    const char *element = from + holding.at[i] * 32;
    return loadWord(element + 8) == call.flag &&
           loadWord(element + 24) == call.flag;
  }

  /// Waits for row `row` of all peers.
  __device__ __forceinline__ void waitForAll(uint32_t row, Call &state) const {
    Patience patience;
    while (!state.failed) {
      int32_t late = -1;
      for (int32_t n = 0; n < p.world - 1; ++n) {
        int32_t peer = peerOf(p, n);
        const char *from = inboxOf(p.rank, peer) + rowAt(row);
        bool there = true;
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          there &= hasFlag(from, i);
        if (!there)
          late = peer;
      }
      late = __reduce_max_sync(0xffffffffu, late);
      if (late < 0)
        break;
      state.failed = patience.isOver(p, call.epoch, late);
    }
    __syncwarp();
  }

  /// Vector slot i of a row that is there.
  __device__ __forceinline__ uint4 fetch(int32_t rank, uint32_t row,
                                         int i) const {
    const char *from = inboxOf(p.rank, rank) + rowAt(row);
    if (whole) {
      int32_t at = lines[i];
      if (!split[i / 2])
        return holding.at[i] >= 0 ? loadVector(from + at)
                                  : make_uint4(0, 0, 0, 0);
      if (i & 1)
        return make_uint4(0, 0, 0, 0);
      return vectorOf(loadWord(from + at), loadWord(from + lines[i | 1]));
    }
    if (holding.at[i] < 0)
      return make_uint4(0, 0, 0, 0);
    return vectorOf(loadWord(from + holding.at[i] * 32),
                    loadWord(from + holding.at[i] * 32 + 16));
  }
};

/// s = rn(sum over ranks in rank order), `x` being this rank's own and `other`
/// the peer's.
template <class T, int P>
__device__ __forceinline__ void
reducePair(const ExchangeParams &p, const uint4 (&x)[2 * P],
           const uint4 (&other)[2 * P], uint4 (&s)[2 * P]) {
  // One rounding of the exact sum of two: see docs/runtime.md.
#pragma unroll
  for (int i = 0; i < 2 * P; ++i)
    s[i] = addVectors<T>(x[i], other[i]);
  if (p.reduction != 0) {
#pragma unroll
    for (int i = 0; i < 2 * P; ++i)
      s[i] = combinePair<T>(p.reduction, p.rank == 0 ? x[i] : other[i],
                            p.rank == 0 ? other[i] : x[i]);
  }
}

template <class T>
__device__ __noinline__ void combineSlowly(int32_t reduction, float *total,
                                           uint4 next) {
  float values[T::perVector];
  T::unpack(next, values);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    total[i] = combine(reduction, total[i], values[i]);
}
template <class T>
__device__ __forceinline__ void
combineInto(int32_t reduction, float (&total)[T::perVector], uint4 next) {
  float copy[T::perVector];
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    copy[i] = total[i];
  combineSlowly<T>(reduction, copy, next);
#pragma unroll
  for (int i = 0; i < T::perVector; ++i)
    total[i] = copy[i];
}

/// The same for any world; fetch(rank, i) loads vector i of a peer, which is
/// there.
template <class T, int P, class Fetch>
__device__ __forceinline__ void reduceRanks(const ExchangeParams &p,
                                            const uint4 (&x)[2 * P],
                                            uint4 (&s)[2 * P], Fetch fetch) {
  // Loads on their way at a time.
  constexpr int batch = 4;
#pragma unroll
  for (int i = 0; i < 2 * P; ++i) {
    float total[T::perVector];
    for (int32_t first = 0; first < p.world; first += batch) {
      uint4 v[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k)
        if (first + k < p.world)
          v[k] = first + k == p.rank ? x[i] : fetch(first + k, i);
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (first + k == 0)
          T::unpack(v[k], total);
        else if (first + k < p.world && p.reduction == 0)
          accumulate<T>(total, v[k]);
        else if (first + k < p.world)
          combineInto<T>(p.reduction, total, v[k]);
      }
    }
    s[i] = T::pack(total);
  }
}

template <class T, int P>
__device__ __forceinline__ void
finishPiece(const ExchangeParams &p, uint32_t index, const Holding<P> &holding,
            uint4 (&s)[2 * P], const uint4 (&residual)[2 * P],
            Partials &partials, uint32_t &turn, uint32_t threads) {
  if (p.norm.norm.gamma.data) {
    finishRow<T, P>(p.norm, index, holding, s, residual, partials, turn,
                    threads);
    return;
  }
  Piece piece = pieceOf(p, index);
  storeRow<T, P>(p.norm.sumOut, addressOf(p.norm.sumOut, piece), holding,
                 piece.vectors, s);
}

/// By all threads, after their last stores: the first thread that lets the next
/// kernel start does so for its block.
__device__ __forceinline__ void endBlock() {
  __syncthreads();
  letNextKernelStart();
}

/// By the warp of each block that keeps the books, so that they don't lie on
/// the way of the data. The block isn't at its end with them.
__device__ __forceinline__ Call keepBooks(const ExchangeParams &p) {
  waitForPreviousKernel();
  Call call = beginCall(p);
  if (blockIdx.x == 0)
    pushHeaders(p, call);
  // Everybody has used the epoch.
  waitForArrivals();
  if ((threadIdx.x & 31) == 0)
    advanceEpoch(p, call, countBlock(p));
  if (blockIdx.x == 0)
    checkHeaders(p, call);
  return call;
}

/// `pair`: for worlds of two alone.
template <class T, int P, bool whole, bool pair>
__global__ void __maxnreg__(pair ? pairRegisters(P) : registersFor(P))
    linesKernel(const __grid_constant__ ExchangeParams p) {
  __shared__ Partials partials;
  int32_t lane = threadIdx.x & 31;
  int32_t warp = threadIdx.x >> 5;
  touchParams(p, p.rows);
  if (warp == static_cast<int32_t>(p.shape.warps)) {
    keepBooks(p);
    endBlock();
    return;
  }
  int32_t vectors = static_cast<int32_t>(p.shape.vectors);
  uint32_t threads = p.shape.warps * 32;
  Holding<P> holding =
      holdingOf<P>(vectors, warp, static_cast<int32_t>(p.shape.warps), lane);
  Call call = {};
  LineEnd<T, P, whole, pair> end{p, call, holding, warp, lane};
  clearPartials(partials, threads);

  waitForPreviousKernel();
  call = beginCall(p);
  // All pushes come before the first wait; in a world of two, which sends much
  // by lines, each when the row before is done, so that rows arrive one after
  // another. The first row stays in registers.
  uint32_t row = blockIdx.x;
  uint4 x[2 * P], residual[2 * P];
  {
    Piece piece = pieceOf(p, row);
    loadRow<T, P>(p.input, addressOf(p.input, piece), holding, piece.vectors,
                  x);
    if (!call.failed)
      end.push(row, x);
    // What the link waits for goes first.
    if (p.norm.residual.data)
      loadRow<T, P>(p.norm.residual, p.norm.residual.row(row), holding, vectors,
                    residual);
  }
  uint32_t next = row + gridDim.x;
  auto pushNext = [&] {
    uint4 v[2 * P];
    Piece piece = pieceOf(p, next);
    loadRow<T, P>(p.input, addressOf(p.input, piece), holding, piece.vectors,
                  v);
    if (!call.failed)
      end.push(next, v);
    next += gridDim.x;
  };
  if constexpr (!pair)
    while (next < p.rows)
      pushNext();
  arriveAtControl();
  uint32_t touched = touchGammas<T>(p.norm);

  uint32_t turn = 0;
  while (true) {
    uint4 s[2 * P];
    if constexpr (pair) {
      uint4 other[2 * P];
      end.wait(1 - p.rank, row, call, other);
      reducePair<T, P>(p, x, other, s);
    } else {
      end.waitForAll(row, call);
      reduceRanks<T, P>(p, x, s, [&](int32_t rank, int i) {
        return end.fetch(rank, row, i);
      });
    }
    finishPiece<T, P>(p, row, holding, s, residual, partials, turn, threads);
    if constexpr (pair)
      if (next < p.rows)
        pushNext();
    row += gridDim.x;
    if (row >= p.rows)
      break;
    Piece piece = pieceOf(p, row);
    loadRow<T, P>(p.input, addressOf(p.input, piece), holding, piece.vectors,
                  x);
    if (p.norm.residual.data)
      loadRow<T, P>(p.norm.residual, p.norm.residual.row(row), holding, vectors,
                    residual);
  }
  endBlock();
  keepWords(touched, p.rows);
}

} // namespace cuda
} // namespace tandem

#endif
