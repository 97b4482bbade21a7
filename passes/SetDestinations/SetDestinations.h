//===- SetDestinations.h - The steps of the pass --------------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_SETDESTINATIONS_SETDESTINATIONS_H
#define TANDEM_PASSES_SETDESTINATIONS_SETDESTINATIONS_H

#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "tandem/Dialect/Tandem.h"

namespace mlir::tandem {

/// A destination that is an operand's own tensor: the op would overwrite what
/// it reads, if nobody else still needs that.
struct InPlaceGuess {
  DestinationStyleOpInterface op;
  unsigned init;
};

using GroupSet = llvm::SmallDenseSet<GroupAttr>;

/// Replaces the dialect's ops in `function` by launches (adds without a norm by
/// linalg ops), each guessed to work in place. Norms beside a group in
/// `batchInvariantGroups` are batch-invariant, too. Emits one error where the
/// runtime can't do what an op asks for.
LogicalResult createLaunches(IRRewriter &rewriter, func::FuncOp function,
                             const GroupSet &batchInvariantGroups,
                             SmallVectorImpl<InPlaceGuess> &guesses);

/// Makes arguments of the results of all functions in `module`, and passes
/// buffers from their callers.
LogicalResult moveResultsToArguments(IRRewriter &rewriter, ModuleOp module);

/// Takes back the guesses that `state` found to need a copy.
void dropWrongGuesses(IRRewriter &rewriter,
                      const bufferization::OneShotAnalysisState &state,
                      ArrayRef<InPlaceGuess> guesses);

/// Lets what `function` returns be computed where it is to be, and both
/// branches of an scf.if compute into one tensor made before it.
void placeResults(IRRewriter &rewriter,
                  const bufferization::OneShotAnalysisState &state,
                  func::FuncOp function);

/// A tensor.empty of `type` at the insertion point, with the sizes of `shape`.
Value createEmptyLike(OpBuilder &builder, Location loc, RankedTensorType type,
                      Value shape);

/// `value`, cast to `type` where it has another one.
Value castTo(OpBuilder &builder, Location loc, Value value, Type type);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_SETDESTINATIONS_SETDESTINATIONS_H
