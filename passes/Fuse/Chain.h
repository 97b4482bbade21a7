//===- Chain.h - Chains that can become one op ---------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_CHAIN_H
#define TANDEM_PASSES_FUSE_CHAIN_H

#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/FusionReport.h"

#include <variant>

namespace mlir::tandem {

/// A chain of ops of one block, from an all-reduce to the norm that ends it:
///
///   all_reduce -> views -> [bias add] -> [rms_norm ->] [add ->] views
///     -> rms_norm
///
/// Views are reshapes that keep the last dimension, identities, and casts that
/// change nothing. Values are read off the ops when the chain is rewritten,
/// since rewriting one chain replaces operands of the next.
struct Chain {
  AllReduceOpInterface allReduce;
  /// All ops between the all-reduce and the norm, in order.
  SmallVector<Operation *, 6> interior;
  /// Of those, the views up to the add (or the norm, if there is none)...
  SmallVector<Operation *, 2> viewsBefore;
  /// ... and from there to the norm.
  SmallVector<Operation *, 2> viewsAfter;
  OpOperand *bias = nullptr;     ///< operand of the bias add
  OpOperand *residual = nullptr; ///< operand of the residual add
  RMSNormOpInterface preNorm;    ///< null but in the sandwich
  RMSNormOpInterface norm;

  /// The sum in the shape that the add or, without one, the norm has it.
  Value sum;
  /// Values that are the sum too, behind casts that change nothing.
  SmallVector<Value, 1> sumAliases;
  /// The type of the sum, of the residual add's result, and of the norm up to
  /// the views after.
  RankedTensorType type;
  /// The op whose declared result says more of `type` than the rows' own; null
  /// if none does.
  Operation *declares = nullptr;
  int64_t hidden = 0;
  /// The token count where it is static.
  std::optional<int64_t> staticTokens;
  /// A value with the rows that the chain works on.
  Value rows;
  /// The token count in the terms of the shape analysis, from `countTokens`;
  /// absent if not known.
  std::optional<SymbolicDim> tokens;
  /// Dims of the residual that have to be compared at run time.
  SmallVector<unsigned, 2> comparedDims;

  bool returnsSum = false;
  bool returnsResidual = false;
  /// First made one with another all-reduce.
  bool merged = false;

  /// The op after which everything that the fused op reads is there.
  Operation *insertAfter = nullptr;
  /// Ops up to `insertAfter` that read results of the chain; they move behind
  /// the fused op.
  SmallVector<Operation *, 4> movedDown;

  Operation *getAdd() const {
    return residual ? residual->getOwner() : nullptr;
  }
  /// Whether `op` is one of the chain's own.
  bool contains(Operation *op) const;
  StringRef getPatternName() const;
};

/// Why an all-reduce has no chain.
struct Miss {
  MissReason reason;
  std::string detail;
  Operation *blocker = nullptr; ///< the op in the way, may be null
  /// What to do about just this; empty: what the reason says.
  StringRef advice = {};
};

/// Finds the chain that starts at `allReduce`. Nothing is changed.
std::variant<Chain, Miss> matchChain(AllReduceOpInterface allReduce,
                                     ShapeAnalysis &shapes);

/// Sets the token counts of all `chains` of one function, which are equal where
/// they can be proven equal. By default only as well as it takes to tell them
/// apart; `inTermsOfArguments` asks for all that is known.
void countTokens(ArrayRef<Chain *> chains, ShapeAnalysis &shapes,
                 bool inTermsOfArguments);

/// Works out anew what others need of the chain and where the fused op goes;
/// for use after other chains have been rewritten.
std::optional<Miss> updatePlace(Chain &chain);

/// Whether a chain could start at `value`, if it were the result of
/// `allReduce`.
bool leadsToNorm(Value value, AllReduceOpInterface allReduce,
                 ShapeAnalysis &shapes);

/// The all-reduce that `value` is the result of, behind views; null if none.
AllReduceOpInterface getAllReduceBehind(Value value);

/// Whether control can get to `block` from its region's entry. Where it can't,
/// an op may read what is computed after it, so that nothing there can move.
bool isReachable(Block *block);

/// If `op` adds two tensors, broadcasting or not, in any spelling.
bool isAdd(Operation *op);

/// If `op` passes its first operand on with other leading dimensions or none
/// changed, the same rows in the same order.
bool isView(Operation *op);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_CHAIN_H
