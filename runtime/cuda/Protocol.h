//===-- Protocol.h - What ranks share on their devices ----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Sizes, places and words of the memory that the ranks of a workspace share.
// Pure functions of numbers, for host and device. docs/cuda.md says why nothing
// stale can be read.
//
// Every rank has one region of device memory, regionBytes long, which each of
// its peers has mapped whole. A rank stores into the regions of its peers and
// loads from its own, nothing else.
//
// What the host does:
//  1. The ranks agree on Facts (Plan.h): equal on all of them.
//  2. Each allocates a region, aligned to 256 bytes, and maps those of its
//     peers with read and write access. All bytes are mapped.
//  3. Each zeroes its region, and then sets Control::epoch to firstEpoch and
//     Control::deadline. It waits for its device, and then for all ranks.
//  4. Self-test: every rank runs launchSelfTest (Kernels.h) at the same time,
//     waits for its device and reads its SelfTestResult. All lines whole on all
//     ranks: Facts::wholeLines. The ranks agree, repeat step 3, and wait for
//     each other again.
//  5. Each has a HostRecord in pinned host memory that its device has mapped,
//     zeroed. Kernels write it when a call fails, once; the host reads it at
//     any time: `state` first, with acquire.
//  6. To fail its group from outside (an argument is wrong, a peer is dead), a
//     rank stores a failure word (failureWord) to Control::failure of its own
//     region and of those of its peers that are alive, if it is zero there,
//     by launchFail on a stream of its own or by a copy. Kernels that wait see
//     it within some tens of microseconds.
//  7. A region may be freed once no kernel of its own rank runs and no peer
//     launches any more.
//
// Who writes what in a region:
//   Control::epoch, arrived,  kernels of the region's own rank
//   recorded
//   Control::failure          anyone; never zero again
//   Control::deadline         the own host
//   headers, lines, flags,    kernels of the peer that each is indexed by; own
//   payload                   kernels only read them
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_PROTOCOL_H
#define TANDEM_RUNTIME_CUDA_PROTOCOL_H

#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_HD __host__ __device__
#else
#define TANDEM_HD
#endif

namespace tandem {
namespace cuda {

/// Compared when the ranks agree; raise it with any change of what is here, in
/// Plan.cpp or in the kernels' protocols.
constexpr uint32_t deviceProtocol = 3;

constexpr int maxWorld = 8;
/// Double buffers: a call uses slot epoch mod 2.
constexpr uint32_t numSlots = 2;

/// What a vector access moves.
constexpr uint32_t vectorBytes = 16;
/// A line: 120 bytes of data, then an 8-byte flag, stored and loaded by eight
/// neighbouring threads at once.
constexpr uint32_t lineBytes = 128;
constexpr uint32_t vectorsPerLine = 7;

//===----------------------------------------------------------------------===//
// Epochs and flags
//===----------------------------------------------------------------------===//

/// The number of a call on a workspace, from firstEpoch. It is counted on the
/// device, so that replays of a graph count too. Epochs are kept modulo 2^48:
/// at a call a microsecond that is 8.9 years. Every workspace starts shortly
/// before the wrap, so that there is no test that doesn't cross it.
constexpr uint64_t epochMask = (uint64_t(1) << 48) - 1;
constexpr uint64_t firstEpoch = epochMask - 200;

TANDEM_HD constexpr uint64_t nextEpoch(uint64_t epoch) {
  return (epoch + 1) & epochMask;
}
TANDEM_HD constexpr uint32_t slotOf(uint64_t epoch) {
  return static_cast<uint32_t>(epoch & 1);
}
/// A flag: the epoch and a hash of the call that is never zero. Zeroed memory
/// is no flag.
TANDEM_HD constexpr uint64_t flagOf(uint64_t epoch, uint32_t hash16) {
  return (epoch & epochMask) << 16 | hash16;
}

//===----------------------------------------------------------------------===//
// Headers: what a rank says about its call, compared word by word
//===----------------------------------------------------------------------===//

enum HeaderWord : int {
  HeaderTokens,
  HeaderHidden,
  /// dtype | reduction << 8 | kind << 16 | protocol << 24
  HeaderKind,
  /// Operands, roundings and gamma types: see variantOf.
  HeaderVariant,
  /// The bits of the f32 epsilons.
  HeaderEpsilon,
  HeaderPreEpsilon,
  /// Rows before this part of a call that goes in several.
  HeaderPart,
  HeaderSpare,
};
constexpr int numHeaderWords = 8;

/// In memory: the word above, the low 32 bits of the epoch below, in one
/// 8-byte store. Every call writes all words, so what is stale is two epochs
/// old.
TANDEM_HD constexpr uint64_t headerWordOf(uint64_t epoch, uint32_t word) {
  return static_cast<uint64_t>(word) << 32 | static_cast<uint32_t>(epoch);
}
constexpr uint32_t headerBytes = 128;

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// tandem_status numbers (TIMEOUT 4, PEER_DIED 5, PEER_LEFT 6, MISMATCH 7 ...)
/// with who found it and who caused it (-1: no single rank).
TANDEM_HD constexpr uint64_t failureWord(int32_t status, int32_t reporter,
                                         int32_t peer) {
  return uint64_t(1) << 63 | static_cast<uint64_t>(status & 0xff) |
         static_cast<uint64_t>((reporter + 1) & 0xff) << 8 |
         static_cast<uint64_t>((peer + 1) & 0xff) << 16;
}
TANDEM_HD constexpr int32_t failureStatus(uint64_t word) {
  return static_cast<int32_t>(word & 0xff);
}
TANDEM_HD constexpr int32_t failureReporter(uint64_t word) {
  return static_cast<int32_t>(word >> 8 & 0xff) - 1;
}
TANDEM_HD constexpr int32_t failurePeer(uint64_t word) {
  return static_cast<int32_t>(word >> 16 & 0xff) - 1;
}

/// In the host's memory: what a kernel writes about the group's failure, and
/// what the host wants.
struct HostRecord {
  /// 0: none; 1: being written; 2: there.
  uint32_t state;
  /// Of the failure word.
  int32_t status;
  int32_t reporter;
  int32_t peer;
  /// Calls on this workspace so far, the failing one included.
  uint64_t call;
  /// MISMATCH that this rank found: the HeaderWord and both values. Else -1.
  int32_t word;
  uint32_t mine;
  uint32_t theirs;
  uint32_t reserved;
  /// The host's: a failure word that lets waiting kernels go, or zero. Here,
  /// since a thread that frees memory keeps all others from copying until the
  /// kernels are done.
  uint64_t stop;
};

/// At the beginning of a region.
struct Control {
  /// Read by every block of a call, then advanced by the last block to arrive.
  uint64_t epoch;
  /// Blocks of the current call that have read the epoch.
  uint32_t arrived;
  /// 1: a kernel has written the HostRecord.
  uint32_t recorded;
  uint32_t reserved0[28];
  /// The group's failure, or zero. A line of its own: peers write it.
  uint64_t failure;
  uint64_t reserved1[15];
  /// Nanoseconds that a wait may take; 0: for ever.
  uint64_t deadline;
  /// When a waiting warp last asked for the host's word.
  uint64_t hostAsked;
  uint64_t reserved2[14];
};
static_assert(sizeof(Control) == 384, "three lines");

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

TANDEM_HD constexpr uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}
TANDEM_HD constexpr uint64_t ceilDiv(uint64_t value, uint64_t by) {
  return (value + by - 1) / by;
}

/// The longest row in vectors that a block takes: 60 a warp and pair
/// (RowMath.cuh) of 18 warps with 4 pairs in f32, 2 in 16 bits: 17,280 elements
/// in any type.
TANDEM_HD constexpr uint32_t maxRowVectorsOf(int32_t dtype) {
  return 60 * 18 * (dtype == 0 ? 4 : 2);
}
constexpr uint32_t maxRowBytes = 60 * 18 * 4 * vectorBytes;
/// Rows are pushed in units of one row or, if rows are short, as many as come
/// to at least this.
constexpr uint32_t minUnitBytes = 4096;
/// Room for flagged lines per peer and slot, whatever the capacity: lines are
/// for small messages.
constexpr uint64_t maxLineArea = uint64_t(9) << 20;
/// For all peers together.
constexpr uint64_t maxLineTotal = uint64_t(18) << 20;

/// header | headers | flags | lines | payload. Flags and lines never share a
/// byte with raw payload.
struct Layout {
  uint32_t world;
  /// Bytes of one rank's input, as agreed; rounded up to 128.
  uint64_t capacity;
  /// Per peer and slot.
  uint64_t lineArea;
  /// Per peer and slot: inputs, or inputs and sums by halves.
  uint64_t payloadArea;
  /// Flags per peer, slot and set.
  uint64_t maxUnits;
  uint64_t flagsAt;
  uint64_t linesAt;
  uint64_t payloadAt;
  uint64_t bytes;

  /// The place of `peer` among those of `rank`: 0 to world - 2.
  static TANDEM_HD constexpr uint32_t peerIndex(int rank, int peer) {
    return static_cast<uint32_t>(peer < rank ? peer : peer - 1);
  }
  /// Offsets in the region of `rank` of what `from` writes there.
  TANDEM_HD constexpr uint64_t headerAt(uint32_t slot, int rank,
                                        int from) const {
    return 4096 +
           (uint64_t(slot) * (world - 1) + peerIndex(rank, from)) * headerBytes;
  }
  /// Set 0: inputs; 1: sums (two-step).
  TANDEM_HD constexpr uint64_t flagAt(uint32_t slot, int rank, int from,
                                      int set) const {
    return flagsAt +
           ((uint64_t(slot) * (world - 1) + peerIndex(rank, from)) * 2 + set) *
               maxUnits * 8;
  }
  TANDEM_HD constexpr uint64_t lineAt(uint32_t slot, int rank, int from) const {
    return linesAt +
           (uint64_t(slot) * (world - 1) + peerIndex(rank, from)) * lineArea;
  }
  TANDEM_HD constexpr uint64_t payloadOf(uint32_t slot, int rank,
                                         int from) const {
    return payloadAt +
           (uint64_t(slot) * (world - 1) + peerIndex(rank, from)) * payloadArea;
  }
};

/// Lays a region out for `world` ranks, 2 to maxWorld, and `capacity` bytes of
/// one rank's input, below 2^40.
TANDEM_HD constexpr Layout layOutRegion(uint32_t world, uint64_t capacity) {
  Layout l = {};
  l.world = world;
  l.capacity = roundUp(capacity, 128);
  uint64_t share = maxLineTotal / (world - 1);
  // A sixteenth for the flags, a tenth for lines that a row doesn't fill, or
  // (elements of 16 bytes) as much again.
  l.lineArea = 2 * l.capacity;
  if (l.lineArea > maxLineArea)
    l.lineArea = maxLineArea;
  if (l.lineArea > share)
    l.lineArea = share;
  // Two ranks send everything in lines.
  if (world == 2 && l.lineArea < l.capacity / 8 * 9)
    l.lineArea = l.capacity / 8 * 9;
  l.lineArea = roundUp(l.lineArea + uint64_t(maxRowBytes) * 2, 128);
  // Two-step: a share of the inputs, and one of the sums; one step: what fits
  // in both.
  l.payloadArea =
      2 * roundUp(ceilDiv(l.capacity, world) + maxRowBytes + minUnitBytes, 128);
  l.maxUnits = roundUp(l.capacity / minUnitBytes + 16, 16);
  l.flagsAt =
      4096 + roundUp(uint64_t(numSlots) * (world - 1) * headerBytes, 4096);
  l.linesAt = roundUp(
      l.flagsAt + uint64_t(numSlots) * (world - 1) * 2 * l.maxUnits * 8, 4096);
  l.payloadAt =
      roundUp(l.linesAt + uint64_t(numSlots) * (world - 1) * l.lineArea, 4096);
  l.bytes = roundUp(
      l.payloadAt + uint64_t(numSlots) * (world - 1) * l.payloadArea, 4096);
  return l;
}

/// Device memory of each rank, in bytes: what layOutRegion needs.
TANDEM_HD constexpr uint64_t regionBytes(uint32_t world, uint64_t capacity) {
  return layOutRegion(world, capacity).bytes;
}

} // namespace cuda
} // namespace tandem

#endif
