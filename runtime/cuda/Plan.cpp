//===-- Plan.cpp - Which path and grid a call takes -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include <initializer_list>

using namespace tandem::cuda;

static constexpr uint32_t vectorsPerPair = 60;

static uint32_t elementSize(int32_t dtype) { return dtype == 0 ? 4 : 2; }

Tuning tandem::cuda::defaultTuning(uint32_t world, bool) {
  constexpr uint64_t mib = uint64_t(1) << 20;
  if (world == 2)
    return {~uint64_t(0), ~uint64_t(0)};
  // One step sends world - 1 times the bytes, two steps 2 (world - 1) / world
  // times, and cost some 3 us more: what the link moves of one rank's bytes in
  // that time is about 1 MiB.
  uint64_t oneStep = mib * world / (uint64_t(world - 1) * (world - 2));
  return {oneStep, oneStep};
}

const char *tandem::cuda::protocolName(Protocol protocol) {
  switch (protocol) {
  case Protocol::Lines:
    return "lines";
  case Protocol::Elements:
    return "elements";
  case Protocol::Rows:
    return "rows";
  case Protocol::TwoStep:
    return "two-step";
  case Protocol::None:
    break;
  }
  return "none";
}

RowShape tandem::cuda::rowShape(uint32_t vectors) {
  RowShape shape = {};
  shape.vectors = vectors;
  uint32_t slices = static_cast<uint32_t>(ceilDiv(vectors, vectorsPerPair));
  shape.pairs = slices <= maxRowWarps ? 1 : slices <= 2 * maxRowWarps ? 2 : 4;
  shape.warps = static_cast<uint32_t>(ceilDiv(slices, shape.pairs));
  // A whole slice fills 8 lines; the rest goes 7 vectors to a line, unless it
  // is too long for that.
  uint32_t rest = vectors % vectorsPerPair;
  uint32_t restLines = rest > 56 ? 8 : static_cast<uint32_t>(ceilDiv(rest, 7));
  shape.lines = vectors / vectorsPerPair * 8 + restLines;
  return shape;
}

static uint32_t mix(uint32_t hash, uint32_t word) {
  // FNV's multiplier over words, with the high bits folded down.
  hash = (hash ^ word) * 16777619u;
  return hash ^ hash >> 15;
}

/// Sets what needs no facts but the world; null, or why not.
static const char *shapeCall(const CallShape &call, Plan &plan) {
  if (call.tokens < 1 || call.hidden < 1 || call.tokens > 0x7fffffff ||
      call.hidden > 0x7fffffff)
    return "tokens or hidden out of range";
  uint64_t rowBytes =
      static_cast<uint64_t>(call.hidden) * elementSize(call.dtype);
  if (rowBytes % vectorBytes)
    return "a row is not a multiple of 16 bytes";
  uint64_t vectors = rowBytes / vectorBytes;
  uint64_t pieces = ceilDiv(vectors, maxRowVectorsOf(call.dtype));
  if (pieces > 1 && call.norm)
    return "a row is longer than a block takes";
  uint64_t rows = static_cast<uint64_t>(call.tokens) * pieces;
  if (rows > 0x7fffffff)
    return "too many rows";
  plan.rowVectors = static_cast<uint32_t>(vectors);
  plan.pieces = static_cast<uint32_t>(pieces);
  plan.shape = rowShape(static_cast<uint32_t>(ceilDiv(vectors, pieces)));
  plan.rows = static_cast<uint32_t>(rows);
  uint32_t pieceBytes = plan.shape.vectors * vectorBytes;
  plan.rowsPerUnit =
      pieces > 1 ? 1 : static_cast<uint32_t>(ceilDiv(minUnitBytes, pieceBytes));
  plan.units = static_cast<uint32_t>(ceilDiv(rows, plan.rowsPerUnit));
  return nullptr;
}

static bool fits(const Layout &layout, const Plan &plan, Protocol protocol) {
  uint64_t pieceBytes = uint64_t(plan.shape.vectors) * vectorBytes;
  uint64_t unitBytes = pieceBytes * plan.rowsPerUnit;
  switch (protocol) {
  case Protocol::Lines:
    return uint64_t(plan.rows) * plan.shape.lines * lineBytes <=
           layout.lineArea;
  case Protocol::Elements:
    return uint64_t(plan.rows) * pieceBytes * 2 <= layout.lineArea;
  case Protocol::Rows:
    return plan.units * unitBytes <= layout.payloadArea &&
           plan.units <= layout.maxUnits;
  case Protocol::TwoStep: {
    uint64_t own = ceilDiv(plan.units, layout.world);
    return own * unitBytes <= layout.payloadArea / 2 && own <= layout.maxUnits;
  }
  case Protocol::None:
    break;
  }
  return false;
}

/// Plan::spread, as it was measured (docs/cuda.md). All blocks have to be
/// resident; beside another group, whose blocks may leave places but no cluster
/// of them, that isn't known.
static uint32_t spreadOf(const Facts &facts, const CallShape &call,
                         const Plan &plan) {
  if (plan.shape.pairs != 1 || facts.maxBlocks)
    return 0;
  auto pays = [&](uint32_t blocks, uint32_t mostRows, uint32_t fewestWarps) {
    return plan.rows <= mostRows && plan.shape.warps >= fewestWarps &&
           uint64_t(plan.rows) * blocks <= facts.clusterBlocks;
  };
  if (!hasPreNorm(call.variant))
    return pays(4, 24, 13) ? 4 : 0;
  // A sandwich's blocks have a multiprocessor each.
  bool wide = call.dtype != 0 && gammaTypeOf(call.variant) == 0;
  if (pays(4, facts.multiprocessors / 4, wide ? 4 : 10))
    return 4;
  return pays(2, facts.multiprocessors / 2, wide ? 8 : 10) ? 2 : 0;
}

/// Blocks a multiprocessor so that two turns of them, nearly full, do all rows:
/// the second turn's rows cross the link while the first turn's are normalised.
/// 0: there is no such number.
static uint32_t blocksForTwoTurns(const Facts &facts, const Plan &plan,
                                  uint32_t most) {
  constexpr uint32_t fewestWarps = 10;
  uint64_t twice = uint64_t(facts.multiprocessors) * 2;
  uint64_t blocks = ceilDiv(plan.rows, twice);
  if (blocks > most || blocks * plan.shape.warps < fewestWarps ||
      uint64_t(plan.rows) * 10 < blocks * twice * 9)
    return 0;
  return static_cast<uint32_t>(blocks);
}

const char *tandem::cuda::planCall(const Facts &facts, const CallShape &call,
                                   Plan &plan) {
  plan = Plan();
  if (facts.world < 2 || facts.world > static_cast<uint32_t>(maxWorld))
    return "the world is not between 2 and 8";
  if (const char *why = shapeCall(call, plan))
    return why;
  Layout layout = layOutRegion(facts.world, facts.capacity);
  uint64_t bytes =
      static_cast<uint64_t>(call.tokens) * plan.rowVectors * vectorBytes;
  if (bytes > layout.capacity)
    return "more bytes than the workspace's capacity";

  Protocol lines = facts.wholeLines ? Protocol::Lines : Protocol::Elements;
  uint64_t lineLimit =
      facts.wholeLines ? facts.tuning.lineLimit : facts.tuning.lineLimit / 2;
  Protocol first = bytes <= lineLimit ? lines
                   : facts.world == 2 || bytes <= facts.tuning.oneStepLimit
                       ? Protocol::Rows
                       : Protocol::TwoStep;
  // What was chosen by speed may not fit; one of these always does.
  for (Protocol protocol : {first, Protocol::Rows, Protocol::TwoStep, lines})
    if (fits(layout, plan, protocol)) {
      plan.protocol = protocol;
      break;
    }
  if (plan.protocol == Protocol::None)
    return "more rows than the workspace has flags for";

  bool pushers =
      plan.protocol == Protocol::Rows || plan.protocol == Protocol::TwoStep;
  // One warp more, which pushes or keeps the books.
  plan.block = (plan.shape.warps + 1) * 32;
  plan.sharedBytes = pushers && facts.bulkCopies ? stageBytes * numStages : 0;
  // All blocks are resident at once, so that any may wait for any other.
  uint32_t pairs = plan.shape.pairs;
  int shape = pairs == 1 ? 0 : pairs == 2 ? 1 : 2;
  bool pairLines = plan.protocol == Protocol::Lines && facts.world == 2;
  uint32_t resident =
      pairLines ? facts.pairThreads[shape] : facts.residentThreads[shape];
  uint32_t perMultiprocessor = resident / plan.block;
  uint32_t most = pushers ? maxBlocksPerMultiprocessor : perMultiprocessor;
  if (perMultiprocessor > most)
    perMultiprocessor = most;
  if (perMultiprocessor == 0)
    return "a block doesn't fit on a multiprocessor";
  if (pairLines)
    if (uint32_t blocks = blocksForTwoTurns(facts, plan, perMultiprocessor))
      perMultiprocessor = blocks;
  uint32_t grid = facts.multiprocessors * perMultiprocessor;
  if (facts.maxBlocks && grid > facts.maxBlocks)
    grid = facts.maxBlocks;
  uint32_t work = pushers ? plan.units : plan.rows;
  if (plan.protocol == Protocol::TwoStep)
    work = static_cast<uint32_t>(ceilDiv(plan.units, facts.world));
  plan.grid = grid < work ? grid : work;
  if (pairLines && call.norm)
    plan.spread = spreadOf(facts, call, plan);
  plan.pushers = plan.grid;
  plan.chunk = stageBytes;

  putHeader(call, plan);
  return nullptr;
}

void tandem::cuda::putHeader(const CallShape &call, Plan &plan) {
  plan.header[HeaderTokens] = static_cast<uint32_t>(call.tokens);
  plan.header[HeaderHidden] = static_cast<uint32_t>(call.hidden);
  plan.header[HeaderKind] = static_cast<uint32_t>(call.dtype) |
                            static_cast<uint32_t>(call.reduction) << 8 |
                            (call.kind & 0xff) << 16 |
                            static_cast<uint32_t>(plan.protocol) << 24;
  plan.header[HeaderVariant] = call.variant;
  plan.header[HeaderEpsilon] = call.epsilonBits;
  plan.header[HeaderPreEpsilon] = call.preEpsilonBits;
  plan.header[HeaderPart] = call.part;
  uint32_t hash = 2166136261u;
  for (uint32_t word : plan.header)
    hash = mix(hash, word);
  hash = (hash ^ hash >> 16) & 0xffff;
  plan.hash = hash ? hash : 1;
}

int64_t tandem::cuda::maxTokens(const Facts &facts, int64_t hidden,
                                int32_t dtype, bool norm) {
  if (hidden < 1 || hidden > 0x7fffffff)
    return 0;
  CallShape call = {};
  call.hidden = hidden;
  call.dtype = dtype;
  call.norm = norm;
  uint64_t rowBytes = static_cast<uint64_t>(hidden) * elementSize(dtype);
  uint64_t most = roundUp(facts.capacity, 128) / rowBytes;
  if (most > 0x7fffffff)
    most = 0x7fffffff;
  // What fits is a prefix of the counts; the capacity nearly decides.
  uint64_t least = 0;
  Plan plan;
  while (least < most) {
    uint64_t middle = least + (most - least + 1) / 2;
    call.tokens = static_cast<int64_t>(middle);
    if (planCall(facts, call, plan))
      most = middle - 1;
    else
      least = middle;
  }
  return static_cast<int64_t>(least);
}

NormPlan tandem::cuda::planNorm(uint32_t multiprocessors, int64_t tokens,
                                int64_t hidden, int32_t dtype) {
  NormPlan plan;
  uint64_t rowBytes = static_cast<uint64_t>(hidden) * elementSize(dtype);
  plan.generic =
      rowBytes % vectorBytes || rowBytes / vectorBytes > maxRowVectorsOf(dtype);
  if (!plan.generic)
    plan.shape = rowShape(static_cast<uint32_t>(rowBytes / vectorBytes));
  plan.block = plan.generic ? 256 : plan.shape.warps * 32;
  // Rows of a local call don't wait for anything: more blocks than fit.
  uint64_t grid = uint64_t(multiprocessors) * 64;
  plan.grid = static_cast<uint32_t>(
      grid < static_cast<uint64_t>(tokens) ? grid : tokens);
  return plan;
}
