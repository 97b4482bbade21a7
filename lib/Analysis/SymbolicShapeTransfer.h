//===- SymbolicShapeTransfer.h - What ops do to shapes -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ANALYSIS_SYMBOLICSHAPETRANSFER_H
#define TANDEM_LIB_ANALYSIS_SYMBOLICSHAPETRANSFER_H

#include "tandem/Analysis/SymbolicShape.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::tandem {

class OnnxNode;

/// Carries shapes from the operands of an op, which have been worked out, to
/// its results. Ops that it doesn't know give nothing.
class ShapeAnalysis::Transfer {
public:
  using Dims = SmallVector<std::optional<SymbolicDim>, 4>;
  using Elements = SmallVector<SymbolicDim, 4>;
  struct Result {
    std::optional<Dims> dims; ///< unknown dims are std::nullopt
    std::optional<Elements> elements;
  };

  explicit Transfer(ShapeAnalysis &analysis) : analysis(analysis) {}

  /// The operands whose shapes or contents the op's results may depend on.
  static OperandRange getDependencies(Operation *op);

  /// True for the integer tensors whose contents are followed: rank 0 or 1
  /// with at most 16 elements.
  static bool holdsElements(RankedTensorType type);

  /// What the defining op says of `result`.
  Result apply(OpResult result);

private:
  const Info *lookup(Value value) const;
  std::optional<Dims> dimsOf(Value value) const;
  const Elements *elementsOf(Value value) const;
  std::optional<SmallVector<int64_t>> constantsOf(Value value) const;
  bool isSize(const SymbolicDim &dim) const;
  std::optional<SymbolicDim>
  multiplyAll(ArrayRef<std::optional<SymbolicDim>> dims);
  std::optional<SymbolicDim> broadcast(const std::optional<SymbolicDim> &a,
                                       const std::optional<SymbolicDim> &b);

  struct Rule;
  using DimsRule = std::optional<Dims> (Transfer::*)(OpResult);
  using ElementsRule = std::optional<Elements> (Transfer::*)(OpResult);
  static const Rule *findRule(const OnnxNode &node);

  std::optional<Dims> broadcastAll(ValueRange values);
  std::optional<Dims> firstDims(OpResult result);
  std::optional<Dims> pairedDims(OpResult result);
  std::optional<Dims> skipNorm(OpResult result);
  std::optional<Dims> broadcastOperands(OpResult result);
  std::optional<Dims> dimsFromElements(OpResult result);
  std::optional<Dims> matMul(OpResult result);
  std::optional<Dims> gemm(OpResult result);
  std::optional<Dims> reshape(OpResult result);
  std::optional<Dims> expand(OpResult result);
  std::optional<Dims> flatten(OpResult result);
  std::optional<Dims> transpose(OpResult result);
  std::optional<Dims> gather(OpResult result);
  std::optional<Dims> squeeze(OpResult result);
  std::optional<Dims> unsqueeze(OpResult result);
  std::optional<Dims> reduce(OpResult result);
  std::optional<Dims> concat(OpResult result);
  std::optional<Dims> slice(OpResult result);
  std::optional<Dims> split(OpResult result);
  std::optional<Dims> collapse(tensor::CollapseShapeOp op);
  std::optional<Dims> expand(tensor::ExpandShapeOp op);
  std::optional<Elements> firstElements(OpResult result);
  std::optional<Elements> castElements(OpResult result);
  std::optional<Elements> shapeOf(OpResult result);
  std::optional<Elements> gatherElements(OpResult result);
  std::optional<Elements> concatElements(OpResult result);
  std::optional<Elements> sliceElements(OpResult result);
  std::optional<Elements> arithmetic(OpResult result);
  std::optional<Elements> constantElements(OpResult result);
  std::optional<SmallVector<int64_t>> axesOf(Operation *op, int64_t rank);

  ShapeAnalysis &analysis;
};

} // namespace mlir::tandem

#endif // TANDEM_LIB_ANALYSIS_SYMBOLICSHAPETRANSFER_H
