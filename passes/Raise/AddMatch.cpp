//===- AddMatch.cpp - Element-wise sums -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matchers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Analysis/SymbolicShape.h"

using namespace mlir;
using namespace mlir::tandem;

FailureOr<AddMatch> mlir::tandem::matchAdd(Operation *op,
                                           ShapeAnalysis &shapes) {
  // arith.addf takes no shapes that differ.
  bool isArith = isa<arith::AddFOp>(op);
  if (!isArith && !isOnnxOp(op, "Add"))
    return failure();
  if (op->getNumOperands() != 2 || op->getNumResults() != 1)
    return failure();
  RankedTensorType type = getRankedTensorType(op->getResult(0));
  if (!type || !isa<FloatType>(type.getElementType()))
    return failure();
  AddMatch match;
  SmallVector<Operation *, 4> lead;
  match.lhs = lookThrough(op->getOperand(0), lead);
  match.rhs = lookThrough(op->getOperand(1), lead);
  if (getRankedTensorType(match.lhs) != type ||
      getRankedTensorType(match.rhs) != type)
    return failure();
  if (!isArith && !haveEqualShapes(match.lhs, match.rhs, shapes))
    return failure();
  match.result = op->getResult(0);
  match.anchor = op;
  match.sources.push_back(op);
  takeExclusive(lead, match);
  return match;
}
