//===-- PlanTest.cpp - Sizes, places and choice of paths on CUDA ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Plan.h"
#include "cuda/Defaults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace tandem::cuda;

namespace {
Facts factsOf(uint32_t world, uint64_t capacity) {
  Facts facts = {};
  facts.world = world;
  facts.capacity = capacity;
  facts.multiprocessors = 132;
  for (uint32_t &threads : facts.residentThreads)
    threads = 1024;
  for (uint32_t &threads : facts.pairThreads)
    threads = 1280;
  facts.clusterBlocks = 528;
  facts.wholeLines = true;
  facts.bulkCopies = true;
  facts.tuning = defaultTuning(world, true);
  return facts;
}

CallShape callOf(int64_t tokens, int64_t hidden, int32_t dtype) {
  CallShape call = {};
  call.tokens = tokens;
  call.hidden = hidden;
  call.dtype = dtype;
  call.norm = true;
  call.variant = variantOf(false, true, false, true, 0, 0, 2, 0);
  return call;
}

struct Span {
  uint64_t begin, end;
  std::string name;
};
} // namespace

TEST(CudaProtocol, RegionsStayBelowTheLimit) {
  // 8 ranks, 2048 tokens, hidden 7168, bf16.
  EXPECT_LE(regionBytes(8, uint64_t(2048) * 7168 * 2), 160000000u);
  for (uint32_t world = 2; world <= 8; ++world)
    for (uint64_t capacity = 1; capacity < uint64_t(1) << 38; capacity *= 5)
      EXPECT_LT(regionBytes(world, capacity), 8 * capacity + (32u << 20))
          << world << " " << capacity;
}

TEST(CudaProtocol, PlacesAreDisjointAndAligned) {
  for (uint32_t world : {2u, 3u, 5u, 8u})
    for (uint64_t capacity : {uint64_t(1), uint64_t(262144), uint64_t(29360128),
                              uint64_t(12345677)}) {
      Layout layout = layOutRegion(world, capacity);
      for (int rank = 0; rank < static_cast<int>(world); ++rank) {
        std::vector<Span> spans{{0, sizeof(Control), "control"}};
        for (uint32_t slot = 0; slot < numSlots; ++slot)
          for (int from = 0; from < static_cast<int>(world); ++from) {
            if (from == rank)
              continue;
            auto add = [&](uint64_t at, uint64_t bytes, const char *name) {
              EXPECT_EQ(at % 128, 0u) << name;
              spans.push_back({at, at + bytes, name});
            };
            add(layout.headerAt(slot, rank, from), headerBytes, "header");
            for (int set = 0; set < 2; ++set)
              add(layout.flagAt(slot, rank, from, set), layout.maxUnits * 8,
                  "flags");
            add(layout.lineAt(slot, rank, from), layout.lineArea, "lines");
            add(layout.payloadOf(slot, rank, from), layout.payloadArea,
                "payload");
          }
        std::sort(spans.begin(), spans.end(),
                  [](auto &a, auto &b) { return a.begin < b.begin; });
        for (size_t i = 1; i < spans.size(); ++i)
          EXPECT_LE(spans[i - 1].end, spans[i].begin)
              << spans[i - 1].name << " and " << spans[i].name;
        EXPECT_LE(spans.back().end, layout.bytes);
      }
    }
}

TEST(CudaProtocol, FlagsTellEpochsAndCallsApart) {
  // Zeroed memory is never a flag, and a slot's stale flag never the next
  // one's.
  EXPECT_NE(flagOf(0, 1), 0u);
  uint64_t epoch = firstEpoch;
  for (int i = 0; i < 1000; ++i) {
    uint64_t next = nextEpoch(epoch);
    EXPECT_NE(slotOf(epoch), slotOf(next));
    EXPECT_NE(flagOf(epoch, 7), flagOf(nextEpoch(next), 7));
    EXPECT_NE(headerWordOf(epoch, 3), headerWordOf(nextEpoch(next), 3));
    EXPECT_LE(next, epochMask);
    epoch = next;
  }
  EXPECT_LT(epoch, 1000u) << "the wrap was crossed";
}

TEST(CudaProtocol, FailureWordsKeepTheirParts) {
  for (int status : {4, 5, 7, 10})
    for (int reporter : {-1, 0, 7})
      for (int peer : {-1, 0, 7}) {
        uint64_t word = failureWord(status, reporter, peer);
        EXPECT_NE(word, 0u);
        EXPECT_EQ(failureStatus(word), status);
        EXPECT_EQ(failureReporter(word), reporter);
        EXPECT_EQ(failurePeer(word), peer);
      }
}

TEST(CudaPlan, RowShapesHoldTheirVectors) {
  for (uint32_t vectors = 1; vectors <= maxRowVectorsOf(0); ++vectors) {
    RowShape shape = rowShape(vectors);
    EXPECT_TRUE(shape.pairs == 1 || shape.pairs == 2 || shape.pairs == 4);
    EXPECT_LE(shape.warps, 18u);
    EXPECT_GE(shape.warps * shape.pairs * 60, vectors);
    // A line takes 7.5 vectors at best, and a row wastes less than two lines.
    EXPECT_GE(shape.lines * 15u, vectors * 2u);
    EXPECT_LE(shape.lines, vectors * 2 / 15 + 2) << vectors;
  }
  EXPECT_EQ(rowShape(512).lines, 69u);
}

TEST(CudaPlan, ChoosesBySize) {
  Facts facts = factsOf(2, uint64_t(8192) * 8192);
  Plan plan;
  auto protocolOf = [&](int64_t tokens) {
    const char *why = planCall(facts, callOf(tokens, 4096, 2), plan);
    EXPECT_EQ(why, nullptr) << (why ? why : "");
    return plan.protocol;
  };
  EXPECT_EQ(protocolOf(1), Protocol::Lines);
  EXPECT_EQ(plan.grid, 1u);
  EXPECT_EQ(protocolOf(8192), Protocol::Lines);
  // Ten warps a block, of those kernels' own registers.
  EXPECT_EQ(plan.grid, 132u * (1280 / 320));
  facts.wholeLines = false;
  EXPECT_EQ(protocolOf(1), Protocol::Elements);
  EXPECT_EQ(protocolOf(8192), Protocol::Rows);
  facts = factsOf(8, uint64_t(8192) * 8192);
  EXPECT_EQ(protocolOf(1), Protocol::Lines);
  EXPECT_EQ(protocolOf(8192), Protocol::TwoStep);
}

TEST(CudaPlan, FewRowsAreSpread) {
  Facts facts = factsOf(2, uint64_t(8192) * 16384);
  auto spreadOf = [&](int64_t tokens, int64_t hidden, bool sandwich = true,
                      int32_t gammaType = 2) {
    CallShape call = callOf(tokens, hidden, 2);
    call.variant =
        variantOf(false, true, sandwich, true, 0, 0, gammaType, gammaType);
    Plan plan;
    EXPECT_EQ(planCall(facts, call, plan), nullptr);
    return plan.spread;
  };
  EXPECT_EQ(spreadOf(1, 7168), 4u);
  EXPECT_EQ(spreadOf(33, 7168), 4u);
  EXPECT_EQ(spreadOf(34, 7168), 2u);
  EXPECT_EQ(spreadOf(66, 7168), 2u);
  EXPECT_EQ(spreadOf(67, 7168), 0u);
  EXPECT_EQ(spreadOf(24, 7168, false), 4u);
  EXPECT_EQ(spreadOf(25, 7168, false), 0u);
  EXPECT_EQ(spreadOf(1, 4096), 0u);
  EXPECT_EQ(spreadOf(1, 4096, true, 0), 4u) << "gammas in f32";
  EXPECT_EQ(spreadOf(66, 4096), 0u);
  EXPECT_EQ(spreadOf(66, 4096, true, 0), 2u);
  EXPECT_EQ(spreadOf(33, 2048, true, 0), 4u);
  EXPECT_EQ(spreadOf(34, 2048, true, 0), 0u) << "short rows";
  EXPECT_EQ(spreadOf(1, 4096, false, 0), 0u);
  EXPECT_EQ(spreadOf(1, 12288), 0u) << "two pairs a thread";
  // Without a norm there is nothing for which blocks would need each other.
  CallShape call = callOf(1, 7168, 2);
  call.norm = false;
  Plan plan;
  EXPECT_EQ(planCall(facts, call, plan), nullptr);
  EXPECT_EQ(plan.spread, 0u);
  // All of a row's blocks have to be resident.
  facts.maxBlocks = 60;
  EXPECT_EQ(spreadOf(1, 7168), 0u) << "another group may leave no cluster free";
  facts.maxBlocks = 0;
  facts.clusterBlocks = 100;
  EXPECT_EQ(spreadOf(25, 7168), 4u);
  EXPECT_EQ(spreadOf(26, 7168), 2u);
  EXPECT_EQ(spreadOf(50, 7168), 2u);
  EXPECT_EQ(spreadOf(51, 7168), 0u);
  facts.clusterBlocks = 0;
  EXPECT_EQ(spreadOf(1, 7168), 0u) << "no clusters";
  facts = factsOf(3, uint64_t(8192) * 16384);
  EXPECT_EQ(spreadOf(1, 7168), 0u) << "for worlds of two";
}

TEST(CudaPlan, RowsInTwoTurns) {
  Facts facts = factsOf(2, uint64_t(8192) * 16384);
  auto gridOf = [&](int64_t tokens, int64_t hidden) {
    Plan plan;
    EXPECT_EQ(planCall(facts, callOf(tokens, hidden, 2), plan), nullptr);
    return plan.grid;
  };
  EXPECT_EQ(gridOf(256, 4096), 256u) << "a block of ten warps alone is too few";
  EXPECT_EQ(gridOf(256, 7168), 132u);
  EXPECT_EQ(gridOf(448, 4096), 448u) << "the second turn isn't full";
  EXPECT_EQ(gridOf(512, 4096), 264u);
  EXPECT_EQ(gridOf(512, 2048), 264u);
  EXPECT_EQ(gridOf(1024, 4096), 528u);
  EXPECT_EQ(gridOf(2048, 4096), 528u);
  facts.maxBlocks = 200;
  EXPECT_EQ(gridOf(512, 4096), 200u);
}

TEST(CudaDefaults, MeasuredOnesAreForWhatWasMeasured) {
  const std::string h200 = "NVIDIA H200", h100 = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(defaultsFor({h200, h200}, false), Defaults::TwoH200);
  EXPECT_EQ(fusedLimitOf(Defaults::TwoH200), ~uint64_t(0));
  EXPECT_NE(std::string(describe(Defaults::TwoH200)).find("measured on two"),
            std::string::npos);
  for (const auto &names : std::vector<std::vector<std::string>>{
           {h200, h100}, {h100, h100}, {h200}, {h200, h200, h200}, {"", ""}})
    EXPECT_EQ(defaultsFor(names, false), Defaults::Conservative);
  EXPECT_EQ(defaultsFor({h200, h200}, true), Defaults::Conservative)
      << "two ranks on one GPU";
  EXPECT_EQ(fusedLimitOf(Defaults::Conservative), uint64_t(2) << 20);
}

TEST(CudaPlan, GridsAreResident) {
  for (uint32_t resident : {576u, 640u, 1024u, 2048u})
    for (uint32_t maxBlocks : {0u, 1u, 20u})
      for (uint32_t world = 2; world <= 8; ++world)
        for (int64_t hidden : {8, 64, 2048, 4096, 5120, 7168, 16384}) {
          Facts facts = factsOf(world, uint64_t(2048) * 32768);
          for (int shape = 0; shape < 3; ++shape)
            facts.residentThreads[shape] = facts.pairThreads[shape] = resident;
          facts.maxBlocks = maxBlocks;
          for (int64_t tokens : {1, 2, 131, 132, 133, 2048}) {
            Plan plan;
            const char *why = planCall(facts, callOf(tokens, hidden, 1), plan);
            if (resident == 576 && why)
              continue;
            ASSERT_EQ(why, nullptr) << (why ? why : "") << hidden;
            EXPECT_GE(plan.grid, 1u);
            EXPECT_LE(plan.grid, 132 * (resident / plan.block));
            // What every rank needs to take its part in it.
            EXPECT_LE(plan.block, 1024u);
            EXPECT_GE(plan.rows, 1u);
            if (plan.protocol == Protocol::TwoStep) {
              EXPECT_LE(plan.grid, ceilDiv(plan.units, world));
            }
            if (maxBlocks) {
              EXPECT_LE(plan.grid, maxBlocks);
            }
          }
        }
}

TEST(CudaPlan, WhatIsRefusedSaysWhy) {
  Facts facts = factsOf(2, 1 << 20);
  Plan plan;
  auto why = [&](int64_t tokens, int64_t hidden, int32_t dtype, bool norm) {
    CallShape call = callOf(tokens, hidden, dtype);
    call.norm = norm;
    const char *reason = planCall(facts, call, plan);
    EXPECT_EQ(reason == nullptr, plan.protocol != Protocol::None);
    return std::string(reason ? reason : "");
  };
  EXPECT_EQ(why(1, 4096, 2, true), "");
  EXPECT_NE(why(1, 4097, 2, true), "");
  EXPECT_NE(why(1, 4098, 0, true), "");
  EXPECT_NE(why(0, 4096, 2, true), "");
  EXPECT_NE(why(-1, 4096, 2, true), "");
  EXPECT_NE(why(1, int64_t(1) << 40, 2, true), "");
  EXPECT_NE(why(129, 4096, 2, true), "") << "above the capacity";
  EXPECT_EQ(why(128, 4096, 2, true), "");
  EXPECT_NE(why(1, 65536, 2, true), "") << "too long for a norm";
  EXPECT_EQ(why(1, 65536, 2, false), "") << "cut where there is no norm";
  EXPECT_EQ(plan.pieces, 4u);
  facts.world = 9;
  EXPECT_NE(why(1, 4096, 2, true), "");
}

TEST(CudaPlan, MaxTokensIsTheLastThatFits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Facts facts = factsOf(2 + random() % 7, 1 + random() % (64u << 20));
    facts.wholeLines = random() % 2;
    int32_t dtype = static_cast<int32_t>(random() % 3);
    int64_t hidden = (1 + random() % 2160) * (dtype ? 8 : 4);
    CallShape call = callOf(1, hidden, dtype);
    int64_t most = maxTokens(facts, hidden, dtype, true);
    uint64_t rowBytes = uint64_t(hidden) * (dtype ? 2 : 4);
    // The capacity is what was asked for: all of it must be usable.
    EXPECT_EQ(most,
              static_cast<int64_t>(roundUp(facts.capacity, 128) / rowBytes))
        << facts.world << " " << facts.capacity << " " << hidden;
    Plan plan;
    call.tokens = most;
    if (most) {
      EXPECT_EQ(planCall(facts, call, plan), nullptr);
    }
    call.tokens = most + 1;
    EXPECT_NE(planCall(facts, call, plan), nullptr);
  }
}

TEST(CudaPlan, HashesTellCallsApart) {
  Facts facts = factsOf(2, 16 << 20);
  Plan a, b;
  int equal = 0;
  for (int tokens = 1; tokens < 500; ++tokens) {
    ASSERT_EQ(planCall(facts, callOf(tokens, 4096, 2), a), nullptr);
    ASSERT_EQ(planCall(facts, callOf(tokens + 1, 4096, 2), b), nullptr);
    EXPECT_NE(a.hash, 0u);
    EXPECT_LT(a.hash, 65536u);
    EXPECT_NE(memcmp(a.header, b.header, sizeof(a.header)), 0);
    equal += a.hash == b.hash;
  }
  // The header decides; the hash only keeps most wrong data out.
  EXPECT_LE(equal, 1);
}

TEST(CudaPlan, NormsOfAnySizeHaveAPlan) {
  for (int64_t hidden : {1, 7, 8, 4096, 16384, 65536, 1 << 20})
    for (int32_t dtype : {0, 1, 2})
      for (int64_t tokens : {int64_t(1), int64_t(100000), int64_t(1) << 33}) {
        NormPlan plan = planNorm(132, tokens, hidden, dtype);
        EXPECT_GE(plan.grid, 1u);
        EXPECT_LE(plan.block, 1024u);
        EXPECT_EQ(plan.generic,
                  hidden * (dtype ? 2 : 4) % 16 != 0 ||
                      hidden * (dtype ? 2 : 4) / 16 > maxRowVectorsOf(dtype));
      }
}
