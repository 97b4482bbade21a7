//===- Explain.cpp - Matching a norm, and why there is none ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matchers.h"

#include "tandem/Analysis/SymbolicShape.h"

using namespace mlir;
using namespace mlir::tandem;

FailureOr<RMSNormMatch> mlir::tandem::matchRMSNorm(Operation *root,
                                                   MatchFailure *why,
                                                   ShapeAnalysis *shapes) {
  MatchFailure ignored;
  MatchFailure &reason = why ? *why : ignored;
  reason = {Mismatch::NotANorm, root};
  OnnxNode node(root);
  if (!node)
    return failure();
  if (node.is("ReduceMean"))
    return matchNormChain(node, reason);
  return matchNormNode(node, reason, shapes);
}

namespace {
/// Looks along the users of a value for what begins like a norm.
class Explainer {
public:
  std::optional<MatchFailure> explain(Value value, unsigned depth);

private:
  std::optional<MatchFailure> explainUser(Operation *user, Value value,
                                          unsigned depth);
  /// What became of the squares of a norm.
  std::optional<MatchFailure> explainSquare(Operation *square);
};
} // namespace

/// Past this many casts nothing is looked at.
static constexpr unsigned kMaxCasts = 4;

std::optional<MatchFailure> Explainer::explainSquare(Operation *square) {
  std::optional<MatchFailure> other;
  for (Operation *user : square->getUsers()) {
    OnnxNode node(user);
    if (node.is("ReduceMean")) {
      MatchFailure why;
      if (failed(matchRMSNorm(user, &why)))
        return why;
      return std::nullopt;
    }
    if (node && node.getOpType().starts_with("Reduce"))
      other = MatchFailure{Mismatch::NotAMean, user};
  }
  return other;
}

std::optional<MatchFailure> Explainer::explainUser(Operation *user, Value value,
                                                   unsigned depth) {
  OnnxNode node(user);
  if (!node)
    return std::nullopt;
  if (node.is("Cast") || node.is("CastLike") || node.is("Identity")) {
    if (depth == kMaxCasts || user->getNumResults() != 1)
      return std::nullopt;
    return explain(user->getResult(0), depth + 1);
  }
  if (node.is("Pow") ||
      (node.is("Mul") && user->getNumOperands() == 2 &&
       user->getOperand(0) == value && user->getOperand(1) == value)) {
    if (node.is("Pow") && user->getOperand(0) != value)
      return std::nullopt;
    return explainSquare(user);
  }
  StringRef type = node.getOpType();
  if (node.is("ReduceMean")) {
    for (Operation *next : user->getUsers())
      if (isOnnxOp(next, "Sub"))
        return MatchFailure{Mismatch::MeanSubtracted, next};
    return std::nullopt;
  }
  if (type == "LayerNormalization" || type == "SkipLayerNormalization")
    return MatchFailure{Mismatch::MeanSubtracted, user};
  if (type == "LpNormalization" || type == "ReduceL2")
    return MatchFailure{Mismatch::LpNormalization, user};
  MatchFailure why;
  if (failed(matchNormNode(node, why, /*shapes=*/nullptr)) &&
      why.reason != Mismatch::NotANorm)
    return why;
  return std::nullopt;
}

std::optional<MatchFailure> Explainer::explain(Value value, unsigned depth) {
  for (Operation *user : value.getUsers())
    if (auto why = explainUser(user, value, depth))
      return why;
  return std::nullopt;
}

std::optional<MatchFailure> mlir::tandem::explainMissingNorm(Value sum) {
  return Explainer().explain(sum, /*depth=*/0);
}
