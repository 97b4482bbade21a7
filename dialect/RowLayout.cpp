//===- RowLayout.cpp - How a buffer's rows lie in memory ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/RowLayout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;

FailureOr<RowLayout> mlir::tandem::getRowLayout(MemRefType type) {
  if (type.getLayout().isIdentity())
    return RowLayout();
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return failure();
  if (strides.empty())
    return RowLayout();
  if (strides.back() != 1 && type.getShape().back() != 1)
    return failure();
  RowLayout layout;
  for (unsigned i = 0, e = type.getRank() - 1; i != e; ++i) {
    // Dims of size one are never stepped over.
    if (type.getDimSize(i) == 1)
      continue;
    // Two dims are as one if the outer one steps over the whole inner one.
    if (layout.strideDim) {
      int64_t outer = strides[*layout.strideDim], inner = strides[i], expected;
      if (ShapedType::isDynamic(outer) || ShapedType::isDynamic(inner) ||
          type.isDynamicDim(i) ||
          llvm::MulOverflow(inner, type.getDimSize(i), expected) ||
          outer != expected)
        return failure();
    }
    // The runtime takes 0 for the row's length.
    if (strides[i] == 0)
      return failure();
    layout.strideDim = i;
  }
  return layout;
}
