//===- Raise.cpp - The pass tandem-raise ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FusedNodes.h"
#include "Matchers.h"
#include "Rewrite.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/OnnxOps/FusedNode.h"

#include <variant>

using namespace mlir;
using namespace mlir::tandem;

bool mlir::tandem::hasSourceRegion(Operation *op) {
  return isa<AllReduceOp, AddOp, RMSNormOp>(op) && !op->getRegion(0).empty();
}

namespace {
using Match = std::variant<RMSNormMatch, AllReduceMatch, AddMatch>;

/// Finds all matches of a piece of IR, then rewrites them. No match looks at
/// IR that another one has changed.
class Raiser {
public:
  void collect(Operation *root);
  bool rewrite(MLIRContext *context);

private:
  void collectBlock(Block &block);
  void collectOp(Operation *op);
  /// Notes that the match takes its sources.
  template <typename MatchT>
  void add(MatchT match);
  void number();

  ShapeAnalysis shapes;
  std::vector<Match> matches;
  /// Sources of the matches and their index in their block.
  llvm::DenseMap<Operation *, int64_t> positions;
  /// Sums, which may turn out to be part of a norm.
  std::vector<AddMatch> sums;
};
} // namespace

template <typename MatchT>
void Raiser::add(MatchT match) {
  for (Operation *op : match.sources)
    positions[op] = -1;
  matches.emplace_back(std::move(match));
}

void Raiser::collectOp(Operation *op) {
  if (auto norm = matchRMSNorm(op, /*why=*/nullptr, &shapes); succeeded(norm))
    return add(std::move(*norm));
  if (auto reduce = matchAllReduce(op); succeeded(reduce))
    return add(std::move(*reduce));
  if (auto sum = matchAdd(op, shapes); succeeded(sum))
    matches.emplace_back(std::move(*sum));
}

void Raiser::collect(Operation *root) {
  // The other branch of a guard that a model has.
  llvm::SmallPtrSet<Region *, 8> fallbacks;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (hasSourceRegion(op) || fallbacks.contains(op->getParentRegion()))
      return WalkResult::skip();
    if (isFusionGuard(op))
      fallbacks.insert(&op->getRegion(1));
    collectOp(op);
    return WalkResult::advance();
  });
  // An Add of epsilon to a mean can look like a sum of two tensors of one
  // shape; the norm has it.
  llvm::erase_if(matches, [&](const Match &match) {
    auto *sum = std::get_if<AddMatch>(&match);
    return sum && positions.contains(sum->anchor);
  });
  for (const Match &match : matches)
    if (auto *sum = std::get_if<AddMatch>(&match))
      for (Operation *op : sum->sources)
        positions[op] = -1;
}

void Raiser::number() {
  llvm::SmallPtrSet<Block *, 8> blocks;
  for (auto &entry : positions)
    blocks.insert(entry.first->getBlock());
  for (Block *block : blocks) {
    int64_t index = 0;
    for (Operation &op : *block) {
      if (auto it = positions.find(&op); it != positions.end())
        it->second = index;
      ++index;
    }
  }
}

bool Raiser::rewrite(MLIRContext *context) {
  if (matches.empty())
    return false;
  number();
  IRRewriter rewriter(context);
  SourceRewriter sources(rewriter);
  sources.setPositions(&positions);
  for (Match &match : matches)
    std::visit([&](auto &found) { sources.raise(found); }, match);
  return true;
}

bool mlir::tandem::raiseSourceOps(Operation *root) {
  Raiser raiser;
  raiser.collect(root);
  return raiser.rewrite(root->getContext());
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// Raises whatever starts at an op.
struct RaisePattern : public RewritePattern {
  explicit RaisePattern(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getParentOp() && hasSourceRegion(op->getParentOp()))
      return failure();
    for (Region *region = op->getParentRegion(); region;
         region = region->getParentRegion())
      if (region->getRegionNumber() == 1 &&
          isFusionGuard(region->getParentOp()))
        return failure();
    ShapeAnalysis shapes;
    SourceRewriter sources(rewriter);
    if (auto norm = matchRMSNorm(op, /*why=*/nullptr, &shapes);
        succeeded(norm)) {
      sources.raise(*norm);
      return success();
    }
    if (auto reduce = matchAllReduce(op); succeeded(reduce)) {
      sources.raise(*reduce);
      return success();
    }
    if (auto sum = matchAdd(op, shapes); succeeded(sum)) {
      sources.raise(*sum);
      return success();
    }
    return failure();
  }
};
} // namespace

void mlir::tandem::populateRaisePatterns(RewritePatternSet &patterns) {
  patterns.add<RaisePattern>(patterns.getContext());
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMRAISE
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

namespace {
struct TandemRaisePass
    : public mlir::tandem::impl::TandemRaiseBase<TandemRaisePass> {
  using TandemRaiseBase::TandemRaiseBase;

  void runOnOperation() override {
    bool isChanged = raiseFusedNodes(getOperation());
    isChanged |= raiseSourceOps(getOperation());
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
