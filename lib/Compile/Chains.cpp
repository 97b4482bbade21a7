//===- Chains.cpp - Chains of additions -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Tandem.h"

using namespace mlir;
using namespace mlir::tandem;

/// Whether `op` is an addition of tensors that no norm wants to be paired with.
static bool isPlainAdd(Operation *op) {
  if (!isa_and_present<AddOp, arith::AddFOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return type && isa<FloatType>(type.getElementType()) &&
         llvm::all_equal(op->getOperandTypes()) &&
         op->getOperand(0).getType() == type &&
         llvm::none_of(op->getUsers(),
                       [](Operation *user) { return isa<RMSNormOp>(user); });
}

/// Whether `value` is an addition that `user` alone reads.
static bool isLink(Value value, Operation *user) {
  Operation *op = value.getDefiningOp();
  return isPlainAdd(op) && op->hasOneUse() &&
         op->getBlock() == user->getBlock();
}

void mlir::tandem::compile::lowerAddChains(ModuleOp module) {
  SmallVector<Operation *> adds;
  module.walk([&](Operation *op) {
    if (!isPlainAdd(op))
      return;
    bool isBegun = op->hasOneUse() && isPlainAdd(*op->user_begin()) &&
                   isLink(op->getResult(0), *op->user_begin());
    if (isBegun || isLink(op->getOperand(0), op) ||
        isLink(op->getOperand(1), op))
      adds.push_back(op);
  });
  IRRewriter rewriter(module.getContext());
  // Sizes are asked of what the chain begins with, so that its values have no
  // other use.
  llvm::DenseMap<Value, Value> begins;
  for (Operation *op : adds) {
    rewriter.setInsertionPoint(op);
    Location loc = op->getLoc();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value begin = op->getOperand(0);
    if (Value known = begins.lookup(begin))
      begin = known;
    Value empty = tensor::EmptyOp::create(
        rewriter, loc, tensor::getMixedSizes(rewriter, loc, begin),
        type.getElementType());
    SmallVector<AffineMap> maps(
        3, rewriter.getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> iterators(type.getRank(),
                                               utils::IteratorType::parallel);
    auto generic = linalg::GenericOp::create(
        rewriter, loc, type, op->getOperands(), empty, maps, iterators,
        [](OpBuilder &b, Location loc, ValueRange values) {
          Value sum = arith::AddFOp::create(b, loc, values[0], values[1]);
          linalg::YieldOp::create(b, loc, sum);
        });
    begins[generic.getResult(0)] = begin;
    rewriter.replaceOp(op, generic);
  }
}
