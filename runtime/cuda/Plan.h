//===-- Plan.h - Which path and grid a call takes ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Pure functions of what the ranks agreed on when the workspace was made and of
// a call's tokens, hidden size, type and variant: never of pointers, strides or
// capture state. Equal on all ranks, therefore. Needs no CUDA.

#ifndef TANDEM_RUNTIME_CUDA_PLAN_H
#define TANDEM_RUNTIME_CUDA_PLAN_H

#include "Protocol.h"

namespace tandem {
namespace cuda {

/// Shared memory through which bulk copies go, a block.
constexpr uint32_t stageBytes = 8192;
constexpr uint32_t numStages = 4;
/// Blocks that shared memory allows at least.
constexpr uint32_t maxBlocksPerMultiprocessor = 4;

/// How much is sent by which protocol; measured, see docs/cuda.md.
struct Tuning {
  /// Up to this many bytes of one rank's input: flags inside the lines.
  uint64_t lineLimit;
  /// Up to this many, one step; above, two. Worlds of two have no use for two.
  uint64_t oneStepLimit;
};

/// Measured on two H200s; derived from their latencies and bandwidths for other
/// worlds. `bulkCopies` as in Facts.
Tuning defaultTuning(uint32_t world, bool bulkCopies);

/// Warps of a block that hold a row, at most.
constexpr uint32_t maxRowWarps = 18;
/// Blocks of a cluster that a row may be spread over, at most.
constexpr uint32_t maxSpread = 8;

/// What the ranks agreed on: the host takes the smallest of each number, the
/// AND of each bool, over the ranks.
struct Facts {
  uint32_t world;
  uint64_t capacity;
  uint32_t multiprocessors;
  /// Threads of ours that a multiprocessor holds at a time (KernelFacts), for
  /// kernels with 1, 2 and 4 pairs of vectors a thread.
  uint32_t residentThreads[3];
  /// The same for the kernels of lines in a world of two.
  uint32_t pairThreads[3];
  /// Blocks of those in clusters of maxSpread or fewer that the device holds at
  /// a time; 0: it has no clusters.
  uint32_t clusterBlocks;
  /// Largest grid, for several groups on one device; 0: what fits.
  uint32_t maxBlocks;
  /// Self-test: 128-byte lines arrive whole between all pairs.
  bool wholeLines;
  /// All devices have the bulk copy engine (compute capability 9.0 on).
  bool bulkCopies;
  Tuning tuning;
};

enum class Protocol : uint32_t {
  None = 0,
  /// Flags in 128-byte lines, everything to everybody.
  Lines = 1,
  /// The same in 16-byte elements, half data, half flag.
  Elements = 2,
  /// Units of rows, a flag behind each, everything to everybody.
  Rows = 3,
  /// Each unit to its owner, and its sum from there to everybody.
  TwoStep = 4,
};
const char *protocolName(Protocol protocol);

/// How the vectors of a row lie on the threads of a block: the same in all of
/// our norm kernels, so that the squares are added in one order. See
/// RowMath.cuh.
struct RowShape {
  uint32_t vectors;
  uint32_t warps;
  /// Pairs of vectors a thread holds: 1, 2 or 4.
  uint32_t pairs;
  /// Lines that the row takes.
  uint32_t lines;
};
/// For 1 to 4,320 vectors.
RowShape rowShape(uint32_t vectors);

/// What of a call the ranks must agree on. dtype and reduction as in tandem.h.
struct CallShape {
  int64_t tokens;
  /// Elements.
  int64_t hidden;
  int32_t dtype;
  int32_t reduction;
  /// What kind of call this is, for the comparison only; below 256.
  uint32_t kind;
  /// variantOf's; 0 where there is no norm.
  uint32_t variant;
  uint32_t epsilonBits;
  uint32_t preEpsilonBits;
  /// Rows before this part of a call that goes in several.
  uint32_t part;
  /// The rows are normalised: they may not be cut.
  bool norm;
};

/// bias | residual << 1 | pre << 2 | norm << 3 | rounding << 4 |
/// preRounding << 5 | gammaType << 8 | preGammaType << 12
constexpr uint32_t variantOf(bool bias, bool residual, bool pre, bool norm,
                             int32_t rounding, int32_t preRounding,
                             int32_t gammaType, int32_t preGammaType) {
  return uint32_t(bias) | uint32_t(residual) << 1 | uint32_t(pre) << 2 |
         uint32_t(norm) << 3 | uint32_t(rounding & 1) << 4 |
         uint32_t(preRounding & 1) << 5 | uint32_t(gammaType & 15) << 8 |
         uint32_t(preGammaType & 15) << 12;
}

constexpr bool hasPreNorm(uint32_t variant) { return variant >> 2 & 1; }
constexpr int32_t gammaTypeOf(uint32_t variant) {
  return static_cast<int32_t>(variant >> 8 & 15);
}

struct Plan {
  Protocol protocol = Protocol::None;
  uint32_t grid = 0;
  /// Threads a block, those that push included.
  uint32_t block = 0;
  RowShape shape = {};
  /// Rows are cut into this many pieces of shape.vectors (the last may be
  /// shorter). "Row" below and in the kernels is a piece.
  uint32_t pieces = 1;
  /// Of an uncut row.
  uint32_t rowVectors = 0;
  /// Blocks of a cluster over which kernels that can do so spread a row, 2 to
  /// maxSpread, in calls of few rows; 0: a row to a block. Grid and block above
  /// are those of kernels that don't.
  uint32_t spread = 0;
  uint32_t rows = 0;
  uint32_t rowsPerUnit = 1;
  uint32_t units = 0;
  /// Blocks that push, and bytes of a bulk copy.
  uint32_t pushers = 0;
  uint32_t chunk = 0;
  /// Dynamic shared memory.
  uint32_t sharedBytes = 0;
  uint32_t hash = 0;
  uint32_t header[numHeaderWords] = {};
};

/// Plans a call of at least one token and one element. Returns null, or why the
/// fused path can't take this shape (a static string); then plan.protocol is
/// None.
const char *planCall(const Facts &facts, const CallShape &call, Plan &plan);

/// Makes the plan's header and hash those of `call`, as planCall does of its
/// own.
void putHeader(const CallShape &call, Plan &plan);

/// The largest token count that planCall takes at this hidden size and type; 0
/// where there is none.
int64_t maxTokens(const Facts &facts, int64_t hidden, int32_t dtype, bool norm);

/// A local norm: grid, block and shape. `generic` is set for rows that aren't
/// whole vectors or are too long for one block's registers: slower, another
/// kernel, any hidden size up to 2^31 - 1.
struct NormPlan {
  bool generic = false;
  uint32_t grid = 0;
  uint32_t block = 0;
  RowShape shape = {};
};
NormPlan planNorm(uint32_t multiprocessors, int64_t tokens, int64_t hidden,
                  int32_t dtype);

} // namespace cuda
} // namespace tandem

#endif
