//===- FuseElementwise.cpp - One loop for several elementwise ops ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

/// As many operations as a body may have. Each fusion copies both bodies, and
/// code generation takes long over blocks of thousands of instructions.
static constexpr size_t maxOps = 64;

/// As many operands: each is a pointer that the loop keeps.
static constexpr size_t maxOperands = 32;

static bool canFuse(OpOperand *operand) {
  Operation *producer = operand->get().getDefiningOp();
  if (!producer || !producer->hasOneUse())
    return false;
  Operation *consumer = operand->getOwner();
  if (!isa<linalg::LinalgOp>(consumer) || !isa<linalg::LinalgOp>(producer))
    return true;
  auto count = [](Operation *op) {
    return op->getRegion(0).front().getOperations().size();
  };
  return count(consumer) + count(producer) <= maxOps &&
         consumer->getNumOperands() + producer->getNumOperands() <= maxOperands;
}

namespace {
/// Upstream's linalg-fuse-elementwise-ops, with bounds.
struct FuseElementwise
    : public PassWrapper<FuseElementwise, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FuseElementwise)

  StringRef getArgument() const override { return "tandem-fuse-elementwise"; }
  StringRef getDescription() const override {
    return "fuse elementwise operations into loops of bounded size";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<affine::AffineDialect, linalg::LinalgDialect,
                    tensor::TensorDialect>();
  }
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    linalg::populateElementwiseOpsFusionPatterns(patterns, canFuse);
    linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, canFuse);
    tensor::populateBubbleUpExpandShapePatterns(patterns);
    affine::AffineApplyOp::getCanonicalizationPatterns(patterns, context);
    linalg::GenericOp::getCanonicalizationPatterns(patterns, context);
    tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, context);
    tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, context);
    context->getLoadedDialect<linalg::LinalgDialect>()
        ->getCanonicalizationPatterns(patterns);
    linalg::populateConstantFoldLinalgOperations(patterns, canFuse);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns),
                                GreedyRewriteConfig().setUseTopDownTraversal());
  }
};
} // namespace

std::unique_ptr<Pass> mlir::tandem::compile::createFuseElementwise() {
  return std::make_unique<FuseElementwise>();
}
