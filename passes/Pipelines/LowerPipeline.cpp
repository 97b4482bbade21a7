//===- LowerPipeline.cpp - From tensors to the LLVM dialect ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Turns the choice of a whole tensor into branches. Of two tensors that are
/// chosen from, each has its own size, which elementwise ops have not.
struct SplitSelects
    : public PassWrapper<SplitSelects, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitSelects)

  StringRef getArgument() const override { return "tandem-split-selects"; }
  StringRef getDescription() const override {
    return "turn selects of whole tensors into branches";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<scf::SCFDialect>();
  }
  void runOnOperation() override {
    SmallVector<arith::SelectOp> selects;
    getOperation().walk([&](arith::SelectOp op) {
      if (isa<TensorType>(op.getType()) &&
          op.getCondition().getType().isInteger(1))
        selects.push_back(op);
    });
    for (arith::SelectOp op : selects) {
      OpBuilder builder(op);
      auto yield = [](Value value) {
        return [value](OpBuilder &b, Location loc) {
          scf::YieldOp::create(b, loc, value);
        };
      };
      auto branch = scf::IfOp::create(builder, op.getLoc(), op.getCondition(),
                                      yield(op.getTrueValue()),
                                      yield(op.getFalseValue()));
      op.replaceAllUsesWith(branch.getResult(0));
      op.erase();
    }
  }
};
} // namespace

namespace {
/// A switch says nothing more than branches do, which all passes know. Of many
/// cases it is left alone: branches would be nested as deeply.
struct SplitSwitches
    : public PassWrapper<SplitSwitches, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitSwitches)

  static constexpr size_t maxCases = 64;

  StringRef getArgument() const override { return "tandem-split-switches"; }
  StringRef getDescription() const override {
    return "turn scf.index_switch into branches";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, scf::SCFDialect>();
  }
  void runOnOperation() override {
    SmallVector<scf::IndexSwitchOp> switches;
    getOperation().walk([&](scf::IndexSwitchOp op) {
      if (op.getCases().size() <= maxCases)
        switches.push_back(op);
    });
    for (scf::IndexSwitchOp op : switches)
      split(op);
  }
  static void split(scf::IndexSwitchOp op) {
    IRRewriter rewriter(op);
    Location loc = op.getLoc();
    SmallVector<scf::IfOp> branches;
    for (auto [number, body] :
         llvm::zip_equal(op.getCases(), op.getCaseRegions())) {
      Value value = arith::ConstantIndexOp::create(rewriter, loc, number);
      Value isIt = arith::CmpIOp::create(
          rewriter, loc, arith::CmpIPredicate::eq, op.getArg(), value);
      auto branch = scf::IfOp::create(rewriter, loc, op.getResultTypes(), isIt,
                                      /*addThenBlock=*/false,
                                      /*addElseBlock=*/false);
      branch.getThenRegion().takeBody(body);
      if (!branches.empty())
        scf::YieldOp::create(rewriter, loc, branch.getResults());
      branches.push_back(branch);
      if (branches.size() != op.getCases().size()) {
        rewriter.createBlock(&branch.getElseRegion());
      }
    }
    if (branches.empty()) {
      Block &body = op.getDefaultRegion().front();
      SmallVector<Value> results(body.getTerminator()->getOperands());
      rewriter.eraseOp(body.getTerminator());
      rewriter.inlineBlockBefore(&body, op);
      rewriter.replaceOp(op, results);
      return;
    }
    branches.back().getElseRegion().takeBody(op.getDefaultRegion());
    rewriter.replaceOp(op, branches.front().getResults());
  }
};
} // namespace

namespace {
/// Divisions that round up or down, and conversions of bf16, made of what LLVM
/// has. Not all of upstream's arith-expand: its maximumf and minimumf don't
/// tell -0 from +0, and LLVM has them.
struct ExpandArithmetic
    : public PassWrapper<ExpandArithmetic, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandArithmetic)

  StringRef getArgument() const override { return "tandem-expand-arithmetic"; }
  StringRef getDescription() const override {
    return "make divisions and conversions of bf16 of what LLVM has";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateExpandBFloat16Patterns(patterns);
    // Folding would leave out roundings.
    GreedyRewriteConfig config;
    config.enableFolding(false).enableConstantCSE(false);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace

namespace {
/// Writes scalars in resources out: MLIR asks a memref.global of rank 0 for its
/// element in a way that resources don't have.
struct InlineScalars
    : public PassWrapper<InlineScalars, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InlineScalars)

  StringRef getArgument() const override { return "tandem-inline-scalars"; }
  StringRef getDescription() const override {
    return "write constants of rank 0 that are in resources out";
  }
  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      auto constant = dyn_cast<arith::ConstantOp>(op);
      auto global = dyn_cast<memref::GlobalOp>(op);
      auto value = dyn_cast_or_null<DenseResourceElementsAttr>(
          constant ? constant.getValue()
          : global ? global.getInitialValue().value_or(Attribute())
                   : Attribute());
      if (!value || value.getType().getRank() != 0)
        return;
      DenseElementsAttr elements = read(value);
      if (!elements) {
        op->emitError("holds a scalar in a resource that has no data, or not "
                      "the size that its type has");
        return signalPassFailure();
      }
      if (constant)
        constant.setValueAttr(elements);
      else
        global.setInitialValueAttr(elements);
    });
  }
  static DenseElementsAttr read(DenseResourceElementsAttr value) {
    ShapedType type = value.getType();
    AsmResourceBlob *blob = value.getRawHandle().getBlob();
    bool isSplat = false;
    if (!blob ||
        !DenseElementsAttr::isValidRawBuffer(type, blob->getData(), isSplat))
      return {};
    // A byte, of which any bit may be set.
    if (type.getElementType().isInteger(1))
      return DenseElementsAttr::get(type, blob->getData().front() != 0);
    return DenseElementsAttr::getFromRawBuffer(type, blob->getData());
  }
};
} // namespace

/// Tensors to buffers, results in their places.
static void addBufferization(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(std::make_unique<SplitSelects>());
  // arith and math on tensors have no buffers of their own.
  pm.addPass(createConvertElementwiseToLinalgPass());
  pm.addPass(createTandemSetDestinations());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  // Not upstream's empty tensor elimination: it puts what two branches give
  // back into one destination although one of them may still be read there.
  bufferization::OneShotBufferizePassOptions options;
  options.allowReturnAllocsFromLoops = true;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  bufferization::BufferDeallocationPipelineOptions deallocation;
  bufferization::buildBufferDeallocationPipeline(pm, deallocation);
}

/// Arithmetic that processors don't have to arithmetic that they have, each
/// operation rounded as if they had it.
static void addArithmetic(OpPassManager &pm) {
  math::MathExtendToSupportedTypesOptions extend;
  extend.targetTypeStr = "f32";
  pm.addNestedPass<func::FuncOp>(
      math::createMathExtendToSupportedTypes(extend));
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16", "f16"};
  emulate.targetTypeStr = "f32";
  pm.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  pm.addPass(createTandemStrictRounding());
  pm.addNestedPass<func::FuncOp>(std::make_unique<ExpandArithmetic>());
}

/// Buffers to the LLVM dialect.
static void addConversion(OpPassManager &pm) {
  pm.addPass(createTandemToRuntime());
  pm.addPass(createTandemExpandCopies());
  pm.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  addArithmetic(pm);
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createTandemReturnFailures());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  // With the allocator that tandem-return-failures added.
  FinalizeMemRefToLLVMConversionPassOptions memory;
  memory.useGenericFunctions = true;
  pm.addPass(createFinalizeMemRefToLLVMConversionPass(memory));
  pm.addPass(createConvertToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createTandemHalvesAsBits());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void mlir::tandem::buildLowerPipeline(OpPassManager &pm) {
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  pm.addPass(std::make_unique<InlineScalars>());
  pm.addNestedPass<func::FuncOp>(std::make_unique<SplitSwitches>());
  pm.addPass(createTandemMaterializeWorkspaces());
  pm.addPass(createTandemDescribe());
  addBufferization(pm);
  addConversion(pm);
}
