//===- ValueInfo.cpp - What is known of an ONNX value ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ValueInfo.h"

using namespace mlir::tandem::onnx;

ValueInfo mlir::tandem::onnx::joinValues(const ValueInfo &a,
                                         const ValueInfo &b) {
  ValueInfo result;
  if (a.kind != b.kind)
    return result;
  result.kind = a.kind;
  if (a.kind == ValueInfo::Other) {
    if (a.spelling == b.spelling)
      result.spelling = a.spelling;
    else
      result.kind = ValueInfo::Unknown;
    return result;
  }
  if (a.kind == ValueInfo::Sequence || a.kind == ValueInfo::Optional) {
    if (a.element && b.element)
      result.element =
          std::make_shared<ValueInfo>(joinValues(*a.element, *b.element));
    return result;
  }
  if (a.dataType == b.dataType)
    result.dataType = a.dataType;
  if (a.isRanked() && b.isRanked() && a.rank() == b.rank()) {
    result.hasRank = true;
    for (auto [x, y] : llvm::zip(a.dims, b.dims))
      result.dims.push_back(x.isSame(y) ? x : SymInt());
  }
  return result;
}

bool mlir::tandem::onnx::isSameType(const ValueInfo &a, const ValueInfo &b) {
  if (a.kind != b.kind || a.dataType != b.dataType || a.hasRank != b.hasRank ||
      a.dims.size() != b.dims.size())
    return false;
  if (a.kind != ValueInfo::Tensor)
    return a.spelling == b.spelling && !a.element == !b.element &&
           (!a.element || isSameType(*a.element, *b.element));
  for (auto [x, y] : llvm::zip_equal(a.dims, b.dims))
    if (!x.isSame(y) && !(x.isUnknown() && y.isUnknown()))
      return false;
  return true;
}

MergeResult mlir::tandem::onnx::mergeDeclared(ValueInfo &inferred,
                                              const ValueInfo &declared) {
  if (declared.kind == ValueInfo::Unknown)
    return MergeResult::Ok;
  if (inferred.kind == ValueInfo::Unknown) {
    inferred = declared;
    return MergeResult::Ok;
  }
  if (inferred.kind != declared.kind)
    return MergeResult::Contradiction;
  if (inferred.kind == ValueInfo::Other) {
    inferred = declared;
    return MergeResult::Ok;
  }
  if (inferred.kind != ValueInfo::Tensor) {
    if (!inferred.element || !declared.element) {
      if (declared.element)
        inferred.element = declared.element;
      return MergeResult::Ok;
    }
    // A sequence's elements may differ in shape, so only their element type can
    // contradict.
    ValueInfo element = *inferred.element;
    MergeResult result = mergeDeclared(element, *declared.element);
    if (result == MergeResult::Contradiction &&
        element.dataType != declared.element->dataType)
      return result;
    inferred.element = declared.element;
    return MergeResult::Ok;
  }

  MergeResult result = MergeResult::Ok;
  if (inferred.dataType != 0 && declared.dataType != 0 &&
      inferred.dataType != declared.dataType) {
    if (!inferred.isWeak)
      return MergeResult::Contradiction;
    result = MergeResult::TypeConflict;
  }
  if (inferred.hasRank && declared.hasRank &&
      inferred.dims.size() != declared.dims.size())
    return MergeResult::Contradiction;
  if (declared.dataType != 0)
    inferred.dataType = declared.dataType;
  if (!declared.hasRank)
    return result;
  if (!inferred.hasRank) {
    inferred.setDims(declared.dims);
    return result;
  }
  for (auto [mine, theirs] : llvm::zip(inferred.dims, declared.dims)) {
    if (theirs.isUnknown() || mine.isSame(theirs))
      continue;
    if (mine.isConstant()) {
      // A constant says more than a symbol.
      if (theirs.isConstant()) {
        mine = SymInt();
        result = MergeResult::DimConflict;
      }
      continue;
    }
    mine = theirs;
  }
  return result;
}
