//===- NormShape.cpp - Types, shapes and casts around a norm --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matchers.h"

#include "tandem/Analysis/SymbolicShape.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tandem;

Value mlir::tandem::lookThrough(Value value,
                                SmallVectorImpl<Operation *> &passed) {
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    Value operand = getNoopCastOperand(value.getDefiningOp());
    if (!operand)
      break;
    passed.push_back(value.getDefiningOp());
    value = operand;
  }
  return value;
}

void mlir::tandem::takeExclusive(ArrayRef<Operation *> passed,
                                 SourceMatch &match) {
  // Users come before the ops they use in `passed`, except where two paths
  // join; so another round is rarely needed.
  bool changed = true;
  while (changed) {
    changed = false;
    for (Operation *op : passed) {
      if (op->getBlock() != match.anchor->getBlock() ||
          llvm::is_contained(match.sources, op))
        continue;
      if (!llvm::all_of(op->getUsers(), [&](Operation *user) {
            return llvm::is_contained(match.sources, user);
          }))
        continue;
      match.sources.push_back(op);
      changed = true;
    }
  }
}

bool mlir::tandem::isHalf(Type type) {
  return isa<Float16Type, BFloat16Type>(type);
}

bool mlir::tandem::isLastAxis(int64_t axis, RankedTensorType type) {
  return type.getRank() > 0 && (axis == -1 || axis == type.getRank() - 1);
}

bool mlir::tandem::isGammaFor(RankedTensorType gamma, RankedTensorType input) {
  if (!gamma || !isa<FloatType>(gamma.getElementType()) ||
      gamma.getRank() == 0 || gamma.getRank() > input.getRank())
    return false;
  int64_t hidden = input.getShape().back();
  return !ShapedType::isDynamic(hidden) && gamma.getShape().back() == hidden &&
         llvm::all_of(gamma.getShape().drop_back(),
                      [](int64_t dim) { return dim == 1; });
}

bool mlir::tandem::isValidEpsilon(double epsilon) {
  return std::isfinite(epsilon) && !std::signbit(epsilon);
}

bool mlir::tandem::haveEqualShapes(Value a, Value b, ShapeAnalysis &shapes) {
  if (a == b)
    return true;
  RankedTensorType type = getRankedTensorType(a);
  if (!type || type != getRankedTensorType(b))
    return false;
  return type.hasStaticShape() || shapes.provablyEqualShapes(a, b);
}

bool mlir::tandem::isMeanSubtracted(Value value) {
  OnnxNode sub(value.getDefiningOp());
  if (!sub.is("Sub") || sub.getNumInputs() != 2)
    return false;
  Operation *rhs =
      lookThroughNoopCasts(sub.getOperation()->getOperand(1)).getDefiningOp();
  return isOnnxOp(rhs, "ReduceMean");
}
