//===- NormNodes.cpp - Norms that are one op ------------------------------===//
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

static constexpr StringLiteral kMicrosoft("com.microsoft");

static LogicalResult fail(MatchFailure &why, Mismatch reason, OnnxNode node) {
  why = {reason, node.getOperation()};
  return failure();
}

/// Whether the node has this output and something uses it.
static bool usesOutput(OnnxNode node, unsigned index) {
  Operation *op = node.getOperation();
  return index < op->getNumResults() && !op->getResult(index).use_empty();
}

/// What all of these nodes share: X normalised by gamma to output 0.
static LogicalResult matchCommon(OnnxNode node, Value x, Value gamma,
                                 RMSNormMatch &norm, MatchFailure &why) {
  RankedTensorType type = getRankedTensorType(x);
  Value result = node.getOperation()->getResult(0);
  RankedTensorType resultType = getRankedTensorType(result);
  if (!type || !resultType || type.getRank() == 0)
    return fail(why, Mismatch::UnknownType, node);
  // An f64 input has its statistics in f32 here, which tandem.rms_norm has
  // not; gamma of another type changes the type of the output.
  Type elementType = type.getElementType();
  RankedTensorType gammaType = getRankedTensorType(gamma);
  if (!gammaType || (!isHalf(elementType) && !elementType.isF32()) ||
      gammaType.getElementType() != elementType ||
      resultType.getElementType() != elementType)
    return fail(why, Mismatch::MixedPrecision, node);
  if (!isGammaFor(gammaType, type))
    return fail(why, Mismatch::GammaShape, node);
  if (resultType != type)
    return fail(why, Mismatch::UnknownType, node);
  if (!isValidEpsilon(norm.epsilon))
    return fail(why, Mismatch::EpsilonInvalid, node);
  norm.gamma = gamma;
  norm.result = result;
  norm.anchor = node.getOperation();
  norm.sources.push_back(node.getOperation());
  return success();
}

/// RMSNormalization and SimplifiedLayerNormalization.
static FailureOr<RMSNormMatch> matchPlain(OnnxNode node, NormRounding rounding,
                                          MatchFailure &why) {
  Value x = node.getInput(0), scale = node.getInput(1);
  if (!x || !scale || node.getInput(2) ||
      node.getOperation()->getNumResults() == 0)
    return fail(why, Mismatch::UnknownType, node);
  SmallVector<Operation *, 4> lead;
  RMSNormMatch norm;
  norm.input = lookThrough(x, lead);
  norm.rounding = rounding;
  norm.epsilon = node.getFloat("epsilon").value_or(1e-5f);
  if (node.getInt("stash_type").value_or(1) != 1)
    return fail(why, Mismatch::StashType, node);
  RankedTensorType type = getRankedTensorType(norm.input);
  if (type && !isLastAxis(node.getInt("axis").value_or(-1), type))
    return fail(why, Mismatch::WrongAxes, node);
  for (unsigned i = 1, e = node.getOperation()->getNumResults(); i != e; ++i)
    if (usesOutput(node, i))
      return fail(why, Mismatch::ExtraOutput, node);
  if (failed(
          matchCommon(node, norm.input, lookThrough(scale, lead), norm, why)))
    return failure();
  takeExclusive(lead, norm);
  return norm;
}

/// Whether a skip of this type may be added to an input, as ONNX Runtime does,
/// which broadcasts it.
static bool broadcastsTo(RankedTensorType skip, RankedTensorType input) {
  if (!skip || skip.getElementType() != input.getElementType() ||
      skip.getRank() > input.getRank())
    return false;
  return llvm::all_of(llvm::zip(llvm::reverse(skip.getShape()),
                                llvm::reverse(input.getShape())),
                      [](auto dims) {
                        auto [skipDim, inputDim] = dims;
                        return skipDim == inputDim || skipDim == 1;
                      });
}

/// SkipSimplifiedLayerNormalization: inputs input, skip, gamma, bias; outputs
/// the norm, two statistics, and the sum.
static FailureOr<RMSNormMatch> matchSkip(OnnxNode node, ShapeAnalysis *shapes,
                                         MatchFailure &why) {
  Operation *op = node.getOperation();
  Value input = node.getInput(0), skip = node.getInput(1);
  Value gamma = node.getInput(2), bias = node.getInput(3);
  if (!input || !skip || !gamma || op->getNumResults() == 0)
    return fail(why, Mismatch::UnknownType, node);
  if (usesOutput(node, 1) || usesOutput(node, 2))
    return fail(why, Mismatch::ExtraOutput, node);
  SmallVector<Operation *, 4> lead;
  RMSNormMatch norm;
  norm.addLhs = lookThrough(input, lead);
  norm.addRhs = lookThrough(skip, lead);
  norm.rounding = NormRounding::AfterGamma;
  // The default of this op's schema; that of the plain one is 1e-5.
  norm.epsilon = node.getFloat("epsilon").value_or(1e-12f);
  if (failed(
          matchCommon(node, norm.addLhs, lookThrough(gamma, lead), norm, why)))
    return failure();
  RankedTensorType type = getRankedTensorType(norm.addLhs);
  if (!broadcastsTo(getRankedTensorType(norm.addRhs), type))
    return fail(why, Mismatch::SkipShape, node);
  ShapeAnalysis ownShapes;
  norm.broadcasts =
      !haveEqualShapes(norm.addLhs, norm.addRhs, shapes ? *shapes : ownShapes);
  if (bias) {
    norm.bias = lookThrough(bias, lead);
    RankedTensorType biasType = getRankedTensorType(norm.bias);
    if (!biasType || biasType.getRank() != 1 ||
        biasType.getElementType() != type.getElementType() ||
        !isGammaFor(biasType, type))
      return fail(why, Mismatch::GammaShape, node);
  }
  if (usesOutput(node, 3)) {
    norm.sumResult = op->getResult(3);
    if (getRankedTensorType(norm.sumResult) != type)
      return fail(why, Mismatch::UnknownType, node);
  }
  takeExclusive(lead, norm);
  return norm;
}

FailureOr<RMSNormMatch> mlir::tandem::matchNormNode(OnnxNode node,
                                                    MatchFailure &why,
                                                    ShapeAnalysis *shapes) {
  if (node.is("RMSNormalization"))
    return matchPlain(node, NormRounding::BeforeGamma, why);
  if (node.is("SimplifiedLayerNormalization") ||
      node.is("SimplifiedLayerNormalization", kMicrosoft))
    return matchPlain(node, NormRounding::AfterGamma, why);
  if (node.is("SkipSimplifiedLayerNormalization", kMicrosoft))
    return matchSkip(node, shapes, why);
  return fail(why, Mismatch::NotANorm, node);
}
