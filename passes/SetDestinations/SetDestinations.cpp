//===- SetDestinations.cpp - Choose the buffers of results ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Destinations are guessed first: every op overwrites what it reads. Then
// bufferization's own analysis says which guesses would need a copy, and those
// ops get new tensors. Last, tensors are replaced by the places where the
// values are wanted.
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "SetDestinations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMSETDESTINATIONS
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::bufferization;
using namespace mlir::tandem;

namespace {
class SetDestinationsPass
    : public tandem::impl::TandemSetDestinationsBase<SetDestinationsPass> {
  void runOnOperation() override;
};
} // namespace

void SetDestinationsPass::runOnOperation() {
  ModuleOp module = getOperation();
  IRRewriter rewriter(&getContext());
  dropSources(module);
  GroupSet batchInvariantGroups;
  module.walk([&](Operation *op) {
    if (auto allReduce = dyn_cast<AllReduceOp>(op);
        allReduce && allReduce.getBatchInvariant())
      batchInvariantGroups.insert(allReduce.getGroup());
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op);
        fused && fused.getBatchInvariant())
      batchInvariantGroups.insert(fused.getGroup());
  });
  SmallVector<func::FuncOp> functions;
  module.walk([&](func::FuncOp function) {
    if (!function.isExternal() && !function->hasAttr(shapeFunctionAttrName))
      functions.push_back(function);
  });
  SmallVector<InPlaceGuess> guesses;
  for (func::FuncOp function : functions)
    if (failed(
            createLaunches(rewriter, function, batchInvariantGroups, guesses)))
      return signalPassFailure();
  if (failed(moveResultsToArguments(rewriter, module)))
    return signalPassFailure();

  OneShotBufferizationOptions options;
  options.allowUnknownOps = true;
  options.allowReturnAllocsFromLoops = true;
  options.bufferizeFunctionBoundaries = true;
  options.setFunctionBoundaryTypeConversion(LayoutMapOption::IdentityLayoutMap);
  OneShotAnalysisState state(module, options);
  if (failed(analyzeModuleOp(module, state)))
    return signalPassFailure();
  dropWrongGuesses(rewriter, state, guesses);
  for (func::FuncOp function : functions)
    placeResults(rewriter, state, function);
}
