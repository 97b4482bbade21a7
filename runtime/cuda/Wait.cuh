//===-- Wait.cuh - Epochs, headers, waiting and giving up -------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_WAIT_CUH
#define TANDEM_RUNTIME_CUDA_WAIT_CUH

#include "Device.cuh"
#include "Params.h"

namespace tandem {
namespace cuda {

/// tandem.h's numbers, which device code doesn't include.
constexpr int32_t statusTimeout = 4;
constexpr int32_t statusMismatch = 7;

__device__ __forceinline__ Control *controlOf(const ExchangeParams &p) {
  return reinterpret_cast<Control *>(p.regions[p.rank]);
}

/// This rank's number i (0 to world - 2) of its peers, counted from the rank
/// above it, so that not all push to the same peer first.
__device__ __forceinline__ int32_t peerOf(const ExchangeParams &p, int32_t i) {
  int32_t peer = p.rank + 1 + i;
  return peer < p.world ? peer : peer - p.world;
}

/// One call as a thread sees it.
struct Call {
  uint64_t epoch;
  uint64_t flag;
  uint32_t slot;
  /// The group has failed: nothing is pushed or waited for any more. What is
  /// computed then means nothing, but everybody comes to the end.
  bool failed;
};

__device__ __forceinline__ Call beginCall(const ExchangeParams &p) {
  const Control *control = controlOf(p);
  Call call;
  call.epoch = loadWord(&control->epoch);
  call.failed = loadWord(&control->failure) != 0;
  call.slot = slotOf(call.epoch);
  call.flag = flagOf(call.epoch, p.hash);
  return call;
}

/// Called by one thread of each block after all threads of the block have got
/// the epoch: counts the block. The result goes to advanceEpoch, later, since
/// it takes a while.
__device__ __forceinline__ uint32_t countBlock(const ExchangeParams &p) {
  return atomicAdd(&controlOf(p)->arrived, 1u);
}

/// The last block to have arrived begins the next epoch. No kernel of this
/// workspace reads it before this one is complete; the fence is for a kernel
/// between the two that doesn't wait for this one.
__device__ __forceinline__ void
advanceEpoch(const ExchangeParams &p, const Call &call, uint32_t arrival) {
  if (arrival != gridDim.x - 1)
    return;
  Control *control = controlOf(p);
  control->arrived = 0;
  control->epoch = nextEpoch(call.epoch);
  __threadfence();
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Writes the host's record unless it has one.
__device__ inline void writeRecord(const ExchangeParams &p, uint64_t epoch,
                                   uint64_t failure, int32_t word,
                                   uint32_t mine, uint32_t theirs) {
  if (atomicExch(&controlOf(p)->recorded, 1u) != 0)
    return;
  volatile HostRecord *record = p.record;
  record->state = 1;
  record->status = failureStatus(failure);
  record->reporter = failureReporter(failure);
  record->peer = failurePeer(failure);
  record->call = ((epoch - firstEpoch) & epochMask) + 1;
  record->word = word;
  record->mine = mine;
  record->theirs = theirs;
  __threadfence_system();
  record->state = 2;
}

/// Fails the group: the first failure that this rank knows of counts, and its
/// peers are told.
__device__ inline void fail(const ExchangeParams &p, uint64_t epoch,
                            int32_t status, int32_t peer, int32_t word,
                            uint32_t mine, uint32_t theirs) {
  uint64_t failure = failureWord(status, p.rank, peer);
  unsigned long long *own =
      reinterpret_cast<unsigned long long *>(&controlOf(p)->failure);
  unsigned long long before = atomicCAS_system(own, 0ull, failure);
  if (before != 0) {
    writeRecord(p, epoch, before, -1, 0, 0);
    return;
  }
  writeRecord(p, epoch, failure, word, mine, theirs);
  // A plain store: peers may be reachable without atomics. Two failures at the
  // same time may replace one another; each is true.
  for (int32_t i = 0; i < p.world - 1; ++i)
    storeWord(&reinterpret_cast<Control *>(p.regions[peerOf(p, i)])->failure,
              failure);
}

/// The host's word, asked for once a millisecond by one warp of all that wait:
/// a read of the host's memory takes long, and thousands at a time very long.
static __device__ __noinline__ uint64_t askHost(const ExchangeParams &p) {
  Control *control = controlOf(p);
  uint64_t now = nanoseconds(), last = loadWord(&control->hostAsked);
  if (now - last < 1000000)
    return 0;
  if (atomicCAS(reinterpret_cast<unsigned long long *>(&control->hostAsked),
                last, now) != last)
    return 0;
  uint64_t failure = loadWord(&p.record->stop);
  // For the others, and for the kernels after this one.
  if (failure != 0)
    (void)atomicCAS_system(
        reinterpret_cast<unsigned long long *>(&control->failure), 0ull,
        static_cast<unsigned long long>(failure));
  return failure;
}

/// Looks around after many vain polls: true if there is nothing to wait for.
/// `late` is the peer that is waited for; `started` is 0 at first.
static __device__ __noinline__ bool lookAround(const ExchangeParams &p,
                                               uint64_t epoch, int32_t late,
                                               uint64_t &started) {
  Control *control = controlOf(p);
  uint64_t failure = loadWord(&control->failure);
  if (failure == 0)
    failure = askHost(p);
  if (failure != 0) {
    writeRecord(p, epoch, failure, -1, 0, 0);
    return true;
  }
  for (int32_t i = 0; i < p.world - 1; ++i) {
    int32_t peer = peerOf(p, i);
    const char *header =
        p.regions[p.rank] + p.layout.headerAt(slotOf(epoch), p.rank, peer);
    for (int32_t w = 0; w < numHeaderWords; ++w) {
      uint64_t word = loadWord(header + 8 * w);
      if (static_cast<uint32_t>(word) == static_cast<uint32_t>(epoch) &&
          static_cast<uint32_t>(word >> 32) != p.header[w]) {
        fail(p, epoch, statusMismatch, peer, w, p.header[w],
             static_cast<uint32_t>(word >> 32));
        return true;
      }
    }
  }
  uint64_t now = nanoseconds();
  if (started == 0)
    started = now;
  uint64_t deadline = loadWord(&control->deadline);
  if (deadline != 0 && now - started > deadline) {
    fail(p, epoch, statusTimeout, late, -1, 0, 0);
    return true;
  }
  return false;
}

/// A warp's patience. Polls are counted, so that looking around is rare.
struct Patience {
  uint64_t started = 0;
  uint32_t polls = 0;

  /// After a vain poll, by the whole warp. `late` counts in lane 0.
  __device__ __forceinline__ bool isOver(const ExchangeParams &p,
                                         uint64_t epoch, int32_t late) {
    if (++polls & 255)
      return false;
    bool over = (threadIdx.x & 31) == 0 && lookAround(p, epoch, late, started);
    return __shfl_sync(0xffffffffu, over, 0);
  }
};

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

/// By one warp of block 0.
__device__ __forceinline__ void pushHeaders(const ExchangeParams &p,
                                            const Call &call) {
  if (call.failed)
    return;
  for (int32_t i = threadIdx.x & 31; i < numHeaderWords * (p.world - 1);
       i += 32) {
    int32_t peer = peerOf(p, i / numHeaderWords);
    int32_t w = i % numHeaderWords;
    storeWord(p.regions[peer] + p.layout.headerAt(call.slot, peer, p.rank) +
                  8 * w,
              headerWordOf(call.epoch, p.header[w]));
  }
}

/// Waits for every peer's header and compares them: what makes a call depend on
/// every peer, whatever it moves. By one warp of block 0.
__device__ __forceinline__ void checkHeaders(const ExchangeParams &p,
                                             Call &call) {
  // The failure may have come from the host, when no kernel waited.
  if (call.failed && (threadIdx.x & 31) == 0)
    writeRecord(p, call.epoch, loadWord(&controlOf(p)->failure), -1, 0, 0);
  int32_t all = numHeaderWords * (p.world - 1);
  Patience patience;
  for (int32_t first = 0; first < all; first += 32) {
    int32_t i = first + (threadIdx.x & 31);
    bool mine = i < all;
    int32_t peer = peerOf(p, mine ? i / numHeaderWords : 0);
    int32_t w = i % numHeaderWords;
    const char *from =
        p.regions[p.rank] + p.layout.headerAt(call.slot, p.rank, peer) + 8 * w;
    uint64_t word = 0;
    while (!call.failed) {
      word = mine ? loadWord(from) : 0;
      bool there = !mine || static_cast<uint32_t>(word) ==
                                static_cast<uint32_t>(call.epoch);
      uint32_t missing = __ballot_sync(0xffffffffu, !there);
      if (!missing)
        break;
      int32_t late = peerOf(p, (first + __ffs(static_cast<int>(missing)) - 1) /
                                   numHeaderWords);
      call.failed = patience.isOver(p, call.epoch, late);
    }
    if (call.failed)
      return;
    if (mine && static_cast<uint32_t>(word >> 32) != p.header[w])
      fail(p, call.epoch, statusMismatch, peer, w, p.header[w],
           static_cast<uint32_t>(word >> 32));
  }
}

} // namespace cuda
} // namespace tandem

#endif
