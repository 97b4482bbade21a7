//===-- Units.cuh - Many tokens: units of rows ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The last warps of some blocks push units of rows, as raw bytes, and a flag
// behind each; the other warps of all blocks take what arrives. In one step
// every unit goes to everybody. In two, unit u goes to its owner, rank u mod
// world, which sends the sum to everybody.
//
// Nobody waits in a circle: pushing waits for nothing from peers; a sum waits
// for pushes alone; the norm of a peer's unit waits for that sum, which its
// owner makes before it waits for anything of the same round or a later one.
// All blocks are resident (Plan.cpp).

#ifndef TANDEM_RUNTIME_CUDA_UNITS_CUH
#define TANDEM_RUNTIME_CUDA_UNITS_CUH

#include "Lines.cuh"

namespace tandem {
namespace cuda {

/// Rounds that the sums of peers may lag behind a block's own.
constexpr uint32_t twoStepLag = 1;

__device__ __forceinline__ uint32_t pieceBytesOf(const ExchangeParams &p) {
  return p.shape.vectors * vectorBytes;
}
__device__ __forceinline__ uint64_t unitBytesOf(const ExchangeParams &p) {
  return uint64_t(pieceBytesOf(p)) * p.rowsPerUnit;
}

/// The units that one pushing warp sends, and to whom.
template <bool twoStep>
struct PushOrder {
  const ExchangeParams &p;
  uint32_t next;
  uint32_t step;
  uint32_t unit = 0;
  /// -1: everybody.
  int32_t owner = -1;
  /// Index of the unit among those of its inbox.
  uint32_t index = 0;

  __device__ __forceinline__ bool advance() {
    while (true) {
      uint32_t n = next;
      next += step;
      if (!twoStep) {
        unit = index = n;
        return n < p.units;
      }
      // Each peer in turn, so that all links are used.
      uint32_t peers = static_cast<uint32_t>(p.world - 1);
      index = n / peers;
      owner = peerOf(p, static_cast<int32_t>(n - index * peers));
      unit =
          index * static_cast<uint32_t>(p.world) + static_cast<uint32_t>(owner);
      if (index * static_cast<uint32_t>(p.world) >= p.units)
        return false;
      if (unit < p.units)
        return true;
    }
  }

  __device__ __forceinline__ uint32_t rowsOf() const {
    uint32_t first = unit * p.rowsPerUnit;
    uint32_t rest = p.rows - first;
    return rest < p.rowsPerUnit ? rest : p.rowsPerUnit;
  }

  /// Calls `each(peer)` for everyone the unit goes to.
  template <class Each>
  __device__ __forceinline__ void forReceivers(Each each) const {
    if constexpr (twoStep)
      each(owner);
    else
      for (int32_t i = 0; i < p.world - 1; ++i)
        each(peerOf(p, i));
  }

  __device__ __forceinline__ uint64_t inboxOf(const Call &call,
                                              int32_t peer) const {
    return p.layout.payloadOf(call.slot, peer, p.rank) + index * unitBytesOf(p);
  }

  __device__ __forceinline__ void sendFlag(const Call &call) const {
    forReceivers([&](int32_t peer) {
      storeWord(p.regions[peer] + p.layout.flagAt(call.slot, peer, p.rank, 0) +
                    index * 8ull,
                call.flag);
    });
    // For this rank's other blocks, which may not write to a row before.
    if (!twoStep && p.inPlace)
      storeWord(p.regions[p.rank] +
                    p.layout.flagAt(call.slot, p.rank, peerOf(p, 0), 1) +
                    index * 8ull,
                call.flag);
  }
};

/// By all lanes: through registers.
template <class T, bool twoStep>
__device__ __forceinline__ void
pushByStores(const ExchangeParams &p, const Call &call,
             PushOrder<twoStep> order, int32_t lane) {
  constexpr int ahead = 8;
  while (order.advance()) {
    uint32_t first = order.unit * p.rowsPerUnit;
    uint32_t rows = order.rowsOf();
    for (uint32_t r = 0; r < rows; ++r) {
      Piece piece = pieceOf(p, first + r);
      const char *from = addressOf(p.input, piece);
      uint64_t to = uint64_t(r) * pieceBytesOf(p);
      for (int32_t at = lane; at < piece.vectors; at += 32 * ahead) {
        uint4 v[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i)
          if (at + 32 * i < piece.vectors)
            v[i] = loadOwn<T>(from, at + 32 * i, p.input.aligned);
        order.forReceivers([&](int32_t peer) {
          char *inbox = p.regions[peer] + order.inboxOf(call, peer) + to;
#pragma unroll
          for (int i = 0; i < ahead; ++i)
            if (at + 32 * i < piece.vectors)
              storeVector(inbox + (at + 32 * i) * 16ll, v[i]);
        });
      }
    }
    __syncwarp();
    if (lane == 0) {
      releaseFence();
      order.sendFlag(call);
    }
  }
}

#if __CUDA_ARCH__ >= 900
/// Cuts units into chunks that fit a stage.
template <bool twoStep>
struct ChunkOrder {
  PushOrder<twoStep> units;
  uint32_t rows = 0;
  uint32_t row = 0;
  uint32_t offset = 0;
  uint32_t runBytes = 0;
  const char *run = nullptr;
  uint64_t runTo = 0;
  /// The chunk.
  const char *from = nullptr;
  uint64_t to = 0;
  uint32_t bytes = 0;
  bool endsUnit = false;

  __device__ explicit ChunkOrder(const PushOrder<twoStep> &order)
      : units(order) {}

  __device__ __forceinline__ bool advance() {
    const ExchangeParams &p = units.p;
    if (offset == runBytes) {
      if (row == rows) {
        if (!units.advance())
          return false;
        rows = units.rowsOf();
        row = 0;
      }
      Piece piece = pieceOf(p, units.unit * p.rowsPerUnit + row);
      run = addressOf(p.input, piece);
      runBytes = static_cast<uint32_t>(piece.vectors) * 16;
      runTo = uint64_t(row) * pieceBytesOf(p);
      // Rows that lie behind one another go together.
      if (p.input.stride == runBytes) {
        runBytes *= rows;
        row = rows;
      } else {
        ++row;
      }
      offset = 0;
    }
    from = run + offset;
    to = runTo + offset;
    uint32_t rest = runBytes - offset;
    bytes = rest < p.chunk ? rest : p.chunk;
    offset += bytes;
    endsUnit = offset == runBytes && row == rows;
    return true;
  }
};

/// By one lane: through shared memory, by the copy engine.
template <bool twoStep>
__device__ __forceinline__ void
pushByBulk(const ExchangeParams &p, const Call &call, PushOrder<twoStep> order,
           char *stages, uint64_t *full) {
  ChunkOrder<twoStep> loads(order), stores(order);
  fenceToBulk();
  uint32_t loaded = 0, stored = 0;
  for (; loaded < numStages - 1 && loads.advance(); ++loaded)
    bulkLoad(stages + loaded * stageBytes, loads.from, loads.bytes,
             full + loaded);
  while (stores.advance()) {
    uint32_t stage = stored % numStages;
    waitForBulkLoad(full + stage, stored / numStages & 1);
    ++stored;
    stores.units.forReceivers([&](int32_t peer) {
      bulkStore(p.regions[peer] + stores.units.inboxOf(call, peer) + stores.to,
                stages + stage * stageBytes, stores.bytes);
    });
    commitBulk();
    // The stage before this one is free once its chunk has been read.
    waitForBulkReads<1>();
    if (loads.advance()) {
      uint32_t into = loaded % numStages;
      bulkLoad(stages + into * stageBytes, loads.from, loads.bytes,
               full + into);
      ++loaded;
    }
    if (stores.endsUnit) {
      waitForBulkStores<0>();
      releaseFence();
      stores.units.sendFlag(call);
    }
  }
}
#endif

/// Waits until the flag at `at` is there. The first warp alone looks, each lane
/// for its own: polls of all would slow the flags down that come in.
__device__ __forceinline__ void waitForFlags(const ExchangeParams &p,
                                             Call &call, const char *at,
                                             bool mine, int32_t peer,
                                             uint32_t threads) {
  if (threadIdx.x >= 32) {
    barrierOf(threads);
    return;
  }
  Patience patience;
  while (!call.failed) {
    bool there = !mine || acquireWord(at) == call.flag;
    uint32_t missing = __ballot_sync(0xffffffffu, !there);
    if (!missing)
      break;
    int32_t late =
        __shfl_sync(0xffffffffu, peer, __ffs(static_cast<int>(missing)) - 1);
    call.failed = patience.isOver(p, call.epoch, late);
  }
  __syncwarp();
  // What the first warp has acquired, the others have from here on.
  barrierOf(threads);
}

/// The warps that take what arrives.
template <class T, int P, bool twoStep, bool pair>
struct Taker {
  const ExchangeParams &p;
  Call &call;
  const Holding<P> &holding;
  Partials &partials;
  int32_t lane;
  uint32_t threads;
  uint32_t turn = 0;

  /// Waits for the inputs of all peers.
  __device__ __forceinline__ void waitForInputs(uint32_t index) {
    // Lane i looks for the i-th peer; one more for this rank's own push.
    bool own = !twoStep && p.inPlace && lane == p.world - 1;
    bool mine = lane < p.world - 1 || own;
    int32_t peer = peerOf(p, lane < p.world - 1 ? lane : 0);
    const char *at = p.regions[p.rank] +
                     p.layout.flagAt(call.slot, p.rank, peer, own) +
                     index * 8ull;
    waitForFlags(p, call, at, mine, own ? p.rank : peer, threads);
  }

  __device__ __forceinline__ void sumInputs(uint64_t offset, int32_t vectors,
                                            const uint4 (&x)[2 * P],
                                            uint4 (&s)[2 * P]) {
    auto fetch = [&](int32_t rank, int i) {
      const char *from = p.regions[p.rank] +
                         p.layout.payloadOf(call.slot, p.rank, rank) + offset;
      return holding.at[i] >= 0 && holding.at[i] < vectors
                 ? loadVector(from + holding.at[i] * 16ll)
                 : make_uint4(0, 0, 0, 0);
    };
    if constexpr (pair) {
      uint4 other[2 * P];
#pragma unroll
      for (int i = 0; i < 2 * P; ++i)
        other[i] = fetch(1 - p.rank, i);
      reducePair<T, P>(p, x, other, s);
    } else {
      reduceRanks<T, P>(p, x, s, fetch);
    }
  }

  /// A unit whose inputs arrive here: all of them in one step, this rank's own
  /// in two.
  __device__ __forceinline__ void takeInputs(uint32_t unit, uint32_t index) {
    uint32_t first = unit * p.rowsPerUnit;
    uint32_t rows = min(p.rowsPerUnit, p.rows - first);
    for (uint32_t r = 0; r < rows; ++r) {
      Piece piece = pieceOf(p, first + r);
      uint4 x[2 * P], residual[2 * P], s[2 * P];
      loadRow<T, P>(p.input, addressOf(p.input, piece), holding, piece.vectors,
                    x);
      if (p.norm.residual.data)
        loadRow<T, P>(p.norm.residual, p.norm.residual.row(first + r), holding,
                      p.norm.vectors, residual);
      if (r == 0)
        waitForInputs(index);
      uint64_t offset = index * unitBytesOf(p) + uint64_t(r) * pieceBytesOf(p);
      sumInputs(offset, piece.vectors, x, s);
      if (twoStep)
        sendSum(offset, piece.vectors, s, index, r + 1 == rows);
      finishPiece<T, P>(p, first + r, holding, s, residual, partials, turn,
                        threads);
    }
  }

  __device__ __forceinline__ void sendSum(uint64_t offset, int32_t vectors,
                                          const uint4 (&s)[2 * P],
                                          uint32_t index, bool last) {
    uint64_t half = p.layout.payloadArea / 2;
    if (!call.failed)
      for (int32_t n = 0; n < p.world - 1; ++n) {
        int32_t peer = peerOf(p, n);
        char *to = p.regions[peer] +
                   p.layout.payloadOf(call.slot, peer, p.rank) + half + offset;
#pragma unroll
        for (int i = 0; i < 2 * P; ++i)
          if (holding.at[i] >= 0 && holding.at[i] < vectors)
            storeVector(to + holding.at[i] * 16ll, s[i]);
      }
    if (!last)
      return;
    // The fence of one thread covers what the others stored before the barrier.
    barrierOf(threads);
    if (threadIdx.x == threads - 1 && !call.failed) {
      releaseFence();
      for (int32_t n = 0; n < p.world - 1; ++n) {
        int32_t peer = peerOf(p, n);
        storeWord(p.regions[peer] +
                      p.layout.flagAt(call.slot, peer, p.rank, 1) +
                      index * 8ull,
                  call.flag);
      }
    }
    __syncwarp();
  }

  /// A unit whose sum comes from its owner.
  __device__ __forceinline__ void takeSum(uint32_t unit, int32_t owner,
                                          uint32_t index) {
    uint32_t first = unit * p.rowsPerUnit;
    uint32_t rows = min(p.rowsPerUnit, p.rows - first);
    const char *from = p.regions[p.rank] +
                       p.layout.payloadOf(call.slot, p.rank, owner) +
                       p.layout.payloadArea / 2 + index * unitBytesOf(p);
    for (uint32_t r = 0; r < rows; ++r) {
      Piece piece = pieceOf(p, first + r);
      uint4 residual[2 * P], s[2 * P];
      if (p.norm.residual.data)
        loadRow<T, P>(p.norm.residual, p.norm.residual.row(first + r), holding,
                      p.norm.vectors, residual);
      if (r == 0)
        waitForFlags(p, call,
                     p.regions[p.rank] +
                         p.layout.flagAt(call.slot, p.rank, owner, 1) +
                         index * 8ull,
                     lane == 0, owner, threads);
#pragma unroll
      for (int i = 0; i < 2 * P; ++i) {
        s[i] = make_uint4(0, 0, 0, 0);
        if (holding.at[i] >= 0 && holding.at[i] < piece.vectors)
          s[i] = loadVector(from + uint64_t(r) * pieceBytesOf(p) +
                            holding.at[i] * 16ll);
      }
      finishPiece<T, P>(p, first + r, holding, s, residual, partials, turn,
                        threads);
    }
  }

  __device__ __forceinline__ void run() {
    if (!twoStep) {
      for (uint32_t unit = blockIdx.x; unit < p.units; unit += gridDim.x)
        takeInputs(unit, unit);
      return;
    }
    uint32_t world = static_cast<uint32_t>(p.world);
    uint32_t all = (p.units + world - 1) / world;
    for (uint32_t n = 0;; ++n) {
      uint32_t index = blockIdx.x + n * gridDim.x;
      uint32_t own = index * world + static_cast<uint32_t>(p.rank);
      if (index < all && own < p.units)
        takeInputs(own, index);
      if (n < twoStepLag)
        continue;
      uint32_t late = index - twoStepLag * gridDim.x;
      if (late >= all)
        break;
      for (int32_t i = 0; i < p.world - 1; ++i) {
        int32_t owner = peerOf(p, i);
        uint32_t unit = late * world + static_cast<uint32_t>(owner);
        if (unit < p.units)
          takeSum(unit, owner, late);
      }
    }
  }
};

template <class T, int P, bool twoStep, bool pair>
__global__ void __maxnreg__(registersFor(P))
    unitsKernel(const __grid_constant__ ExchangeParams p) {
  extern __shared__ __align__(128) char stages[];
  __shared__ Partials partials;
  [[maybe_unused]] __shared__ uint64_t full[numStages];
  int32_t lane = threadIdx.x & 31;
  int32_t warp = threadIdx.x >> 5;
  int32_t warps = static_cast<int32_t>(p.shape.warps);
  touchParams(p, p.rows);
  clearPartials(partials, p.shape.warps * 32);
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x < numStages)
    initBarrier(full + threadIdx.x);
#endif
  waitForPreviousKernel();
  Call call = beginCall(p);
  uint32_t touched = touchGammas<T>(p.norm);
  // Everybody has the epoch, and the barriers are there.
  call.failed = __syncthreads_or(call.failed || call.epoch > epochMask);

  if (warp >= warps) {
    uint32_t pusher = static_cast<uint32_t>(warp - warps);
    uint32_t perBlock = blockDim.x / 32 - p.shape.warps;
    if (blockIdx.x == 0 && pusher == 0)
      pushHeaders(p, call);
    if (blockIdx.x < p.pushers && !call.failed) {
      PushOrder<twoStep> order{p, blockIdx.x + p.pushers * pusher,
                               p.pushers * perBlock};
#if __CUDA_ARCH__ >= 900
      if (p.bulk) {
        if (lane == 0 && pusher == 0) {
          order.step = p.pushers;
          pushByBulk<twoStep>(p, call, order, stages, full);
        }
      } else
#endif
        pushByStores<T, twoStep>(p, call, order, lane);
    }
    __syncwarp();
    if (pusher == 0) {
      if (lane == 0)
        advanceEpoch(p, call, countBlock(p));
      __syncwarp();
      if (blockIdx.x == 0)
        checkHeaders(p, call);
    }
  } else {
    Holding<P> holding =
        holdingOf<P>(static_cast<int32_t>(p.shape.vectors), warp, warps, lane);
    Taker<T, P, twoStep, pair> taker{p,        call, holding,
                                     partials, lane, p.shape.warps * 32};
    taker.run();
  }
  endBlock();
  keepWords(touched, p.norm.rows);
}

} // namespace cuda
} // namespace tandem

#endif
