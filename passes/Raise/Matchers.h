//===- Matchers.h - Shared by the matchers -------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RAISE_MATCHERS_H
#define TANDEM_PASSES_RAISE_MATCHERS_H

#include "tandem/OnnxOps/OnnxOps.h"
#include "tandem/Passes/Raise.h"

namespace mlir::tandem {

/// Looks through casts that change nothing and notes them in `passed`.
Value lookThrough(Value value, SmallVectorImpl<Operation *> &passed);

/// Adds those of `passed` to the match's sources that no op outside of the
/// match uses. The others stay where they are.
void takeExclusive(ArrayRef<Operation *> passed, SourceMatch &match);

/// Whether `type` is f16 or bf16, whose statistics are in f32.
bool isHalf(Type type);

/// Checks that `axis` is the last one of `type`.
bool isLastAxis(int64_t axis, RankedTensorType type);

/// Checks gamma's shape against the input's: [H] or [1, ..., 1, H] with the
/// same static H, so that it scales each row and broadcasts nothing else.
bool isGammaFor(RankedTensorType gamma, RankedTensorType input);

bool isValidEpsilon(double epsilon);

/// Whether two values of one type have the same shape at run time.
bool haveEqualShapes(Value a, Value b, ShapeAnalysis &shapes);

/// The norms that are one op in the source. NotANorm for all other ops.
FailureOr<RMSNormMatch> matchNormNode(OnnxNode node, MatchFailure &why,
                                      ShapeAnalysis *shapes);

/// The decomposed norms, from their ReduceMean.
FailureOr<RMSNormMatch> matchNormChain(OnnxNode mean, MatchFailure &why);

/// Whether `value` is `a - mean(a)`.
bool isMeanSubtracted(Value value);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RAISE_MATCHERS_H
