//===- Reduce.cpp - Reductions to linalg ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

/// ReduceMean and ReduceSum: summed in the type that is computed in, divided
/// there, and rounded once.
template <bool isMean>
static LogicalResult lowerReduce(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  auto type = cast<RankedTensorType>(input.getType());
  int64_t rank = type.getRank();
  Type elementType = type.getElementType();
  if (elementType.isInteger(1) || (isMean && !isa<FloatType>(elementType)))
    return lowering.error(Twine(isMean ? "takes the mean" : "takes the sum") +
                          " of " + debugString(elementType) +
                          " elements, which is not lowered; Cast to a float "
                          "before");

  FailureOr<std::optional<SmallVector<int64_t>>> given =
      lowering.getIntsFromAttrOrInput("axes", 1);
  if (failed(given))
    return failure();
  FailureOr<SmallVector<int64_t>> axes =
      lowering.normalizeAxes(given->value_or(SmallVector<int64_t>()), rank);
  if (failed(axes))
    return failure();
  if (axes->empty()) {
    if (lowering.node.getInt("noop_with_empty_axes").value_or(0) != 0) {
      results.push_back(input);
      return success();
    }
    axes->assign(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  }
  bool keepDims = lowering.node.getInt("keepdims").value_or(1) != 0;

  OpBuilder &builder = lowering.builder;
  Location loc = lowering.loc;
  MLIRContext *context = builder.getContext();
  Type accumulator = getComputeType(elementType);
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  SmallVector<AffineExpr> outputExprs;
  Sizes sizes;
  OpFoldResult count = builder.getIndexAttr(1);
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!llvm::is_contained(*axes, dim)) {
      outputExprs.push_back(getAffineDimExpr(dim, context));
      sizes.push_back(lowering.getSize(input, dim));
      continue;
    }
    iterators[dim] = utils::IteratorType::reduction;
    count = lowering.multiply(count, lowering.getSize(input, dim));
    if (keepDims) {
      outputExprs.push_back(getAffineConstantExpr(0, context));
      sizes.push_back(builder.getIndexAttr(1));
    }
  }
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(accumulator));
  Value init = linalg::FillOp::create(builder, loc, zero,
                                      lowering.makeEmpty(sizes, accumulator))
                   .getResult(0);
  Value sum = linalg::GenericOp::create(
                  builder, loc, init.getType(), input, init,
                  ArrayRef{builder.getMultiDimIdentityMap(rank),
                           AffineMap::get(rank, 0, outputExprs, context)},
                  iterators,
                  [&](OpBuilder &b, Location bodyLoc, ValueRange values) {
                    Value x = convertScalar(b, bodyLoc, values[0], accumulator),
                          total;
                    if (isa<FloatType>(accumulator))
                      total = arith::AddFOp::create(b, bodyLoc, values[1], x);
                    else
                      total = arith::AddIOp::create(b, bodyLoc, values[1], x);
                    linalg::YieldOp::create(b, bodyLoc, total);
                  })
                  .getResult(0);
  Value divisor;
  if (isMean) {
    Value number = arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(), lowering.asValue(count));
    divisor = convertScalar(builder, loc, number, accumulator);
  }
  results.push_back(lowering.elementwise(
      sum, lowering.getSizes(sum), elementType,
      [&](OpBuilder &b, Location bodyLoc, ValueRange values) {
        Value total = values.front();
        if (isMean)
          total = arith::DivFOp::create(b, bodyLoc, total, divisor);
        return convertScalar(b, bodyLoc, total, elementType);
      }));
  return success();
}

LowerFn mlir::tandem::lookupReduce(StringRef opType) {
  return llvm::StringSwitch<LowerFn>(opType)
      .Case("ReduceMean", lowerReduce<true>)
      .Case("ReduceSum", lowerReduce<false>)
      .Default(nullptr);
}
