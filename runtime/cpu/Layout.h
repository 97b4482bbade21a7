//===-- Layout.h - Sizes and places in the shared memory ------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_LAYOUT_H
#define TANDEM_RUNTIME_CPU_LAYOUT_H

#include "support/Error.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem {

/// Two lines of most processors, so that prefetching in pairs doesn't share.
constexpr size_t lineBytes = 128;
/// The double buffer.
constexpr uint32_t numSlots = 2;
/// What every workspace has of a rank's data per slot, fused path or not.
constexpr uint64_t minCapacity = uint64_t(256) << 10;
/// The number before that of the first round: a few hundred rounds below the
/// wrap, so that every run of any length crosses it.
constexpr uint32_t firstRound = 0xffffff00;

/// What a rank shows to its peers.
struct alignas(lineBytes) RankLine {
  /// Low half of the last round that this rank has published; the futex that
  /// its peers sleep on.
  std::atomic<uint32_t> published;
  /// Peers asleep, or about to be.
  std::atomic<uint32_t> sleepers;
  /// 1 once the rank has destroyed its workspace.
  std::atomic<uint32_t> left;
};

/// What a rank says about its part of a round.
struct alignas(lineBytes) CallHeader {
  uint64_t call;
  int64_t tokens;
  int64_t hidden;
  uint32_t round;
  uint32_t dtype;
  uint32_t reduction;
  /// A CallKind.
  uint32_t kind;
  /// The fused family's operands, roundings and gamma types.
  uint32_t variant;
  uint32_t batchInvariant;
  /// The bits of the epsilons.
  uint64_t epsilon;
  uint64_t preEpsilon;
  /// Zero; there is no padding, so that headers can be compared as bytes.
  uint64_t reserved[8];
};
static_assert(sizeof(CallHeader) == lineBytes &&
                  std::has_unique_object_representations_v<CallHeader>,
              "one line of plain bytes");

enum CallKind : uint32_t {
  CallFused = 0,
  CallAllReduce = 1,
  /// An all_reduce that stands for a fused call (TANDEM_CALL_FALLBACK).
  CallFallbackReduce = 2,
};

/// The group's first failure. 0: none; 1: being written; 2: there.
struct alignas(lineBytes) FailureRecord {
  std::atomic<uint32_t> state;
  Error error;
};

struct alignas(lineBytes) SegmentHeader {
  uint64_t magic;
  uint32_t protocol;
  uint32_t world;
  uint64_t capacity;
  uint64_t bytes;
  FailureRecord failure;
};
constexpr uint64_t segmentMagic = 0x4745534d45444e54;

static_assert(std::atomic<uint32_t>::is_always_lock_free &&
                  sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "atomics between processes must be plain words");

/// header | a RankLine per rank | a CallHeader per slot and rank | data per
/// slot and rank, `capacity` bytes each.
struct Layout {
  uint32_t world = 0;
  uint64_t capacity = 0;
  uint64_t headersAt = 0;
  uint64_t dataAt = 0;
  uint64_t bytes = 0;

  RankLine *line(void *base, int rank) const {
    return reinterpret_cast<RankLine *>(static_cast<char *>(base) +
                                        sizeof(SegmentHeader)) +
           rank;
  }
  CallHeader *header(void *base, uint32_t slot, int rank) const {
    return reinterpret_cast<CallHeader *>(static_cast<char *>(base) +
                                          headersAt) +
           uint64_t(slot) * world + rank;
  }
  char *data(void *base, uint32_t slot, int rank) const {
    return static_cast<char *>(base) + dataAt +
           (uint64_t(slot) * world + rank) * capacity;
  }
};

inline uint64_t elementBytes(tandem_dtype dtype) {
  return dtype == TANDEM_DTYPE_F32 ? 4 : 2;
}

/// What a workspace wants, from its description.
struct WorkspacePlan {
  /// max_tokens x hidden x element size, as asked for.
  uint64_t askedBytes = 0;
  /// The longest row that a norm may have, in bytes.
  uint64_t rowBytes = 0;
  Layout fused;
  Layout fallback;
  /// Of each rank's own.
  uint64_t privateBytes = 0;
};

/// Lays a segment out; a world of one has none. Names what overflows.
Error layOut(uint32_t world, uint64_t capacity, Layout &layout);

/// Checks a description's sizes and plans for them.
Error planWorkspace(int32_t world, int64_t maxTokens, int64_t hidden,
                    tandem_dtype dtype, WorkspacePlan &plan);

} // namespace tandem

#endif
