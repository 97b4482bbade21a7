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

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::tandem {

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

  Result applyOnnx(Operation *op, StringRef type, OpResult result);
  std::optional<Dims> broadcastAll(ValueRange values);
  std::optional<Dims> matMul(Operation *op);
  std::optional<Dims> gemm(Operation *op);
  std::optional<Dims> reshape(Operation *op);
  std::optional<Dims> expand(Operation *op);
  std::optional<Dims> flatten(Operation *op);
  std::optional<Dims> transpose(Operation *op);
  std::optional<Dims> gather(Operation *op);
  std::optional<Dims> squeeze(Operation *op, StringRef type);
  std::optional<Dims> unsqueeze(Operation *op, OpResult result);
  std::optional<Dims> reduce(Operation *op);
  std::optional<Dims> concat(Operation *op);
  std::optional<Dims> slice(Operation *op);
  std::optional<Dims> split(Operation *op);
  std::optional<Elements> shapeOf(Operation *op);
  std::optional<Elements> gatherElements(Operation *op);
  std::optional<Elements> concatElements(Operation *op);
  std::optional<Elements> sliceElements(Operation *op);
  std::optional<Elements> arithmetic(Operation *op, StringRef type);
  std::optional<Elements> constantElements(Operation *op, OpResult result);
  std::optional<SmallVector<int64_t>> axesOf(Operation *op, int64_t rank);

  ShapeAnalysis &analysis;
};

} // namespace mlir::tandem

#endif // TANDEM_LIB_ANALYSIS_SYMBOLICSHAPETRANSFER_H
