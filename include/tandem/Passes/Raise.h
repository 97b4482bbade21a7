//===- Raise.h - From source ops to tandem ops ---------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The matchers behind `tandem-raise`, and what they say where they don't
// match. A matcher reads the IR and changes nothing; docs/raise.md lists what
// each takes and refuses.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RAISE_H
#define TANDEM_PASSES_RAISE_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Tandem.h"

#include <optional>

namespace mlir::tandem {

class ShapeAnalysis;

/// Why source ops are not what they look like.
enum class Mismatch {
  // Of a norm.
  NotANorm,           ///< nothing about it resembles a norm
  ConstantNotRead,    ///< a constant is in external data that was not there
  SquareExponent,     ///< the exponent is not the constant 2
  NotAMean,           ///< squares are reduced, but not by a mean
  AxesNotConstant,    ///< the axes of the mean are computed
  WrongAxes,          ///< the mean is not over the last dimension alone
  KeepDims,           ///< the mean drops its dimension
  NoEpsilon,          ///< no epsilon is added to the mean
  EpsilonNotConstant, ///< epsilon is computed, or an input of the model
  EpsilonInvalid,     ///< epsilon is negative, infinite or not a number
  NoInverseRoot,      ///< no division by the square root follows
  InputsDiffer,       ///< another value is scaled than was squared
  MeanSubtracted,     ///< a LayerNorm: the mean is subtracted first
  LpNormalization,    ///< a p-norm: no epsilon under the root
  NoGamma,            ///< no multiplication by a scale follows
  GammaShape,         ///< gamma has not the length of the last dimension
  MixedPrecision,     ///< it rounds at another place than the tandem op
  StashType,          ///< statistics are not in f32
  InteriorUse,        ///< a value inside has another user, or is an output
  ExtraOutput,        ///< the mean or the inverse deviation is used
  SkipShape,          ///< the skip has not the shape of the input
  UnknownType,        ///< a tensor's type, rank or hidden size is not known
  // Of an all-reduce.
  SeveralInputs,    ///< one node reduces several tensors
  UnknownReduction, ///< not a reduction that tandem.all_reduce has
  UnknownGroup,     ///< the group can't be told from the attributes
  TypeChanges,      ///< the result's type is not the operand's
  NoWait            ///< an asynchronous all-reduce without its wait
};

/// One sentence for people, e.g. "the mean is not over the last dimension
/// alone". Lives forever.
StringRef describe(Mismatch mismatch);

/// The name of the enumerator, for programs. Lives forever.
StringRef stringify(Mismatch mismatch);

/// One clause that says what to do about it; empty where only docs/raise.md
/// helps. Lives forever.
StringRef getAdvice(Mismatch mismatch);

/// A reason, and the op that is in the way.
struct MatchFailure {
  Mismatch reason = Mismatch::NotANorm;
  Operation *blocker = nullptr;
};

/// Source ops that together mean one tandem op.
struct SourceMatch {
  /// The value that stands for the tandem op's result.
  Value result;
  /// The ops that move into the source region, without order.
  SmallVector<Operation *, 12> sources;
  /// The raised op takes the place of this one.
  Operation *anchor = nullptr;
};

/// A norm. Of `SkipSimplifiedLayerNormalization`, which adds first, `input`
/// is null and the fields at the end are set.
struct RMSNormMatch : SourceMatch {
  Value input;
  /// [H], or [1, ..., 1, H].
  Value gamma;
  /// In f64 exactly as the source has it.
  double epsilon = 0;
  NormRounding rounding = NormRounding::BeforeGamma;

  Value addLhs, addRhs;
  bool broadcasts = false; ///< the shapes of the two may differ
  Value bias;              ///< of shape [H], added to the sum; may be null
  Value sumResult;         ///< the source's own result for the sum; may be null
};

struct AllReduceMatch : SourceMatch {
  Value input;
  ReductionKind reduction = ReductionKind::Sum;
  GroupAttr group;
};

struct AddMatch : SourceMatch {
  Value lhs, rhs;
};

/// Matches an RMSNorm from its root: the ReduceMean of the decomposed forms,
/// or the one op of the others. `shapes` proves what SkipSimplified...
/// needs proven; without it a new analysis is made. On failure `why`, where
/// given, says what is in the way.
FailureOr<RMSNormMatch> matchRMSNorm(Operation *root,
                                     MatchFailure *why = nullptr,
                                     ShapeAnalysis *shapes = nullptr);

/// Matches an all-reduce of any kind and spelling. A failure sets `why` only
/// if the op is an all-reduce after all, so a caller can list those that
/// could not be raised.
FailureOr<AllReduceMatch>
matchAllReduce(Operation *op, std::optional<MatchFailure> *why = nullptr);

/// The op's own name where it reads like an all-reduce's, though none of the
/// spellings that are known: "AllReduce of domain my.ops". Empty for all other
/// ops, those included that `matchAllReduce` knows.
std::string getAllReduceLookAlike(Operation *op);

/// The spellings that are known, as a list in one line. Lives forever.
StringRef getAllReduceSpellings();

/// Matches an element-wise sum of two float tensors of one shape.
FailureOr<AddMatch> matchAdd(Operation *op, ShapeAnalysis &shapes);

/// Looks whether source ops that resemble a norm start at `sum`, and says why
/// they aren't one. std::nullopt where nothing there resembles a norm.
std::optional<MatchFailure> explainMissingNorm(Value sum);

/// Replaces all that matches in `root`'s regions by tandem ops that hold
/// their sources. Changes nothing where nothing matches. Linear in the number
/// of ops. Returns whether anything was raised.
bool raiseSourceOps(Operation *root);

/// The same one op at a time, for the greedy driver of an embedder. (Not for a
/// driver that walks blocks: ops behind the matched one move.) Without the
/// positions that let tandem-restore keep the order of a block.
void populateRaisePatterns(RewritePatternSet &patterns);

/// Whether `op` is a raised op that holds its sources.
bool hasSourceRegion(Operation *op);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RAISE_H
