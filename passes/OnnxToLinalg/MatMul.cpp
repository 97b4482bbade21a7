//===- MatMul.cpp - Products to linalg ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Products are summed in f32 (f64 for f64), in the order of the contracted
// dimension, and rounded once. The loops are ordered so that the innermost one
// runs along rows of the second operand and of the result: it vectorises
// without reordering a sum, and reads memory in order.
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

/// Inserts a dimension of size 1.
static Value insertUnitDim(NodeLowering &lowering, Value tensor, int64_t at) {
  int64_t rank = typeOf(tensor).getRank();
  SmallVector<int64_t> shape(typeOf(tensor).getShape());
  shape.insert(shape.begin() + at, 1);
  SmallVector<ReassociationIndices> groups(std::max<int64_t>(rank, 1));
  // Only of rank 1 here: both dims come from its one.
  for (int64_t i = 0; i <= rank; ++i)
    groups[std::max<int64_t>(0, i < at ? i : i - 1)].push_back(i);
  return tensor::ExpandShapeOp::create(
      lowering.builder, lowering.loc,
      RankedTensorType::get(shape, typeOf(tensor).getElementType()), tensor,
      groups);
}

/// Removes dimension `at`, which has size 1.
static Value removeUnitDim(NodeLowering &lowering, Value tensor, int64_t at) {
  int64_t rank = typeOf(tensor).getRank();
  SmallVector<ReassociationIndices> groups;
  if (rank > 1) {
    // With the dimension before it, or with the one after it.
    int64_t partner = at > 0 ? at - 1 : 1;
    for (int64_t i = 0; i < rank; ++i) {
      if (i == std::max(at, partner))
        groups.back().push_back(i);
      else
        groups.push_back({i});
    }
  }
  return tensor::CollapseShapeOp::create(lowering.builder, lowering.loc, tensor,
                                         groups);
}

/// lhs [batch..., M, K] x rhs [batch..., K, N], the batch sizes given and
/// either rank's own or absent; as a tensor of the type that sums have.
static Value product(NodeLowering &lowering, Value lhs, Value rhs,
                     const Sizes &batch) {
  OpBuilder &builder = lowering.builder;
  Location loc = lowering.loc;
  MLIRContext *context = builder.getContext();
  Type accumulator = getComputeType(typeOf(lhs).getElementType());
  int64_t numBatch = batch.size(), numLoops = numBatch + 3;
  AffineExpr m = getAffineDimExpr(numBatch, context);
  AffineExpr k = getAffineDimExpr(numBatch + 1, context);
  AffineExpr n = getAffineDimExpr(numBatch + 2, context);
  auto makeMap = [&](Value operand, AffineExpr row, AffineExpr column) {
    SmallVector<AffineExpr> exprs;
    RankedTensorType type = typeOf(operand);
    int64_t own = type.getRank() - 2;
    for (int64_t i = 0; i < own; ++i) {
      int64_t dim = numBatch - own + i;
      bool isOne =
          type.getDimSize(i) == 1 && getConstantIntValue(batch[dim]) != 1;
      exprs.push_back(isOne ? getAffineConstantExpr(0, context)
                            : getAffineDimExpr(dim, context));
    }
    exprs.push_back(row);
    exprs.push_back(column);
    return AffineMap::get(numLoops, 0, exprs, context);
  };

  Sizes sizes(batch);
  sizes.push_back(lowering.getSize(lhs, typeOf(lhs).getRank() - 2));
  sizes.push_back(lowering.getSize(rhs, typeOf(rhs).getRank() - 1));
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(accumulator));
  Value init = linalg::FillOp::create(builder, loc, zero,
                                      lowering.makeEmpty(sizes, accumulator))
                   .getResult(0);
  SmallVector<AffineMap> maps = {makeMap(lhs, m, k), makeMap(rhs, k, n),
                                 makeMap(init, m, n)};
  SmallVector<utils::IteratorType> iterators(numLoops,
                                             utils::IteratorType::parallel);
  iterators[numBatch + 1] = utils::IteratorType::reduction;
  return linalg::GenericOp::create(
             builder, loc, init.getType(), ValueRange{lhs, rhs}, init, maps,
             iterators,
             [&](OpBuilder &b, Location bodyLoc, ValueRange values) {
               Value x = convertScalar(b, bodyLoc, values[0], accumulator);
               Value y = convertScalar(b, bodyLoc, values[1], accumulator);
               Value sum;
               if (isa<FloatType>(accumulator))
                 sum = arith::AddFOp::create(
                     b, bodyLoc, values[2],
                     arith::MulFOp::create(b, bodyLoc, x, y));
               else
                 sum = arith::AddIOp::create(
                     b, bodyLoc, values[2],
                     arith::MulIOp::create(b, bodyLoc, x, y));
               linalg::YieldOp::create(b, bodyLoc, sum);
             })
      .getResult(0);
}

/// Both operands, of one type that can be multiplied.
static LogicalResult getOperands(NodeLowering &lowering, Value &lhs,
                                 Value &rhs) {
  lhs = lowering.getTensor(0);
  if (!lhs)
    return failure();
  rhs = lowering.getTensor(1);
  if (!rhs)
    return failure();
  Type type = typeOf(lhs).getElementType();
  if (type != typeOf(rhs).getElementType())
    return lowering.error("has operands of two element types");
  if (type.isInteger(1))
    return lowering.error("has boolean operands");
  return success();
}

static LogicalResult lowerMatMul(NodeLowering &lowering, Results &results) {
  Value lhs, rhs;
  if (failed(getOperands(lowering, lhs, rhs)))
    return failure();
  if (typeOf(lhs).getRank() == 0 || typeOf(rhs).getRank() == 0)
    return lowering.error("has an operand of rank 0");
  // A vector is a row on the left and a column on the right.
  bool isRow = typeOf(lhs).getRank() == 1,
       isColumn = typeOf(rhs).getRank() == 1;
  if (isRow)
    lhs = insertUnitDim(lowering, lhs, 0);
  if (isColumn)
    rhs = insertUnitDim(lowering, rhs, 1);

  int64_t lhsRank = typeOf(lhs).getRank(), rhsRank = typeOf(rhs).getRank();
  if (failed(lowering.checkEqual(lowering.getSize(lhs, lhsRank - 1),
                                 lowering.getSize(rhs, rhsRank - 2),
                                 "contracts sizes that differ")))
    return failure();
  FailureOr<Sizes> batch = lowering.broadcastSizes({lhs, rhs}, 2);
  if (failed(batch))
    return failure();
  // An operand whose batch may or may not broadcast is brought to full size.
  auto settle = [&](Value operand) -> Value {
    int64_t rank = typeOf(operand).getRank();
    int64_t otherRank = std::max(lhsRank, rhsRank);
    for (int64_t i = 0; i < rank - 2; ++i) {
      int64_t dim = otherRank - rank + i;
      if (!typeOf(operand).isDynamicDim(i) ||
          lowering.isProvenEqual(rank - 1 - i) ||
          lowering.isSame(operand, i, (*batch)[dim]))
        continue;
      Sizes sizes(*batch);
      sizes.push_back(lowering.getSize(operand, rank - 2));
      sizes.push_back(lowering.getSize(operand, rank - 1));
      return lowering.broadcastTo(operand, sizes);
    }
    return operand;
  };
  Value result = product(lowering, settle(lhs), settle(rhs), *batch);
  if (isColumn)
    result = removeUnitDim(lowering, result, typeOf(result).getRank() - 1);
  if (isRow)
    result = removeUnitDim(lowering, result,
                           typeOf(result).getRank() - (isColumn ? 1 : 2));
  results.push_back(
      lowering.convertTensor(result, typeOf(lhs).getElementType()));
  return success();
}

/// alpha * A * B + beta * C, rounded once at the end.
static LogicalResult lowerGemm(NodeLowering &lowering, Results &results) {
  Value lhs, rhs;
  if (failed(getOperands(lowering, lhs, rhs)))
    return failure();
  if (typeOf(lhs).getRank() != 2 || typeOf(rhs).getRank() != 2)
    return lowering.error("has operands that are no matrices");
  Type type = typeOf(lhs).getElementType();
  double alpha = lowering.node.getFloat("alpha").value_or(1.0);
  double beta = lowering.node.getFloat("beta").value_or(1.0);
  if (isa<IntegerType>(type) && (alpha != 1.0 || beta != 1.0))
    return lowering.error("scales integers");
  if (lowering.node.getInt("transA").value_or(0) != 0)
    lhs = lowering.transpose(lhs, {1, 0});
  if (lowering.node.getInt("transB").value_or(0) != 0)
    rhs = lowering.transpose(rhs, {1, 0});
  if (failed(lowering.checkEqual(lowering.getSize(lhs, 1),
                                 lowering.getSize(rhs, 0),
                                 "contracts sizes that differ")))
    return failure();
  Value result = product(lowering, lhs, rhs, {});
  Type accumulator = typeOf(result).getElementType();

  SmallVector<Value> inputs{result};
  if (lowering.node.getInput(2) && beta != 0.0) {
    Value bias = lowering.getTensor(2);
    if (!bias)
      return failure();
    RankedTensorType biasType = typeOf(bias);
    if (biasType.getElementType() != type || biasType.getRank() > 2)
      return lowering.error("has a C of another element type or of a rank "
                            "above 2");
    // C broadcasts to the product, never the other way round.
    for (int64_t i = 0, e = biasType.getRank(); i < e; ++i) {
      OpFoldResult size = lowering.getSize(result, 2 - e + i);
      auto own = getConstantIntValue(lowering.getSize(bias, i));
      auto full = getConstantIntValue(size);
      if (own && *own != 1 && full && *full != *own)
        return lowering.error("has a C that doesn't broadcast: size " +
                              Twine(*own) + " to " + Twine(*full));
      if (own && *own == 1)
        continue;
      OpBuilder &b = lowering.builder;
      Value ownSize = lowering.asValue(lowering.getSize(bias, i));
      Value fits = arith::OrIOp::create(
          b, lowering.loc,
          arith::CmpIOp::create(b, lowering.loc, arith::CmpIPredicate::eq,
                                ownSize, lowering.asValue(size)),
          arith::CmpIOp::create(b, lowering.loc, arith::CmpIPredicate::eq,
                                ownSize, lowering.constantIndex(1)));
      lowering.check(fits, "has a C that doesn't broadcast");
    }
    inputs.push_back(bias);
  }
  results.push_back(lowering.elementwise(
      inputs, lowering.getSizes(result), type,
      [&](OpBuilder &b, Location loc, ValueRange values) {
        Value sum = values[0];
        auto scale = [&](Value value, double factor) -> Value {
          if (factor == 1.0)
            return value;
          Value constant = arith::ConstantOp::create(
              b, loc, b.getFloatAttr(accumulator, factor));
          return arith::MulFOp::create(b, loc, value, constant);
        };
        sum = scale(sum, alpha);
        if (values.size() > 1) {
          Value bias =
              scale(convertScalar(b, loc, values[1], accumulator), beta);
          if (isa<FloatType>(accumulator))
            sum = arith::AddFOp::create(b, loc, sum, bias);
          else
            sum = arith::AddIOp::create(b, loc, sum, bias);
        }
        return convertScalar(b, loc, sum, type);
      }));
  return success();
}

LowerFn mlir::tandem::lookupMatMul(StringRef opType) {
  return llvm::StringSwitch<LowerFn>(opType)
      .Case("Gemm", lowerGemm)
      .Case("MatMul", lowerMatMul)
      .Default(nullptr);
}
