//===- ValueInfo.h - What is known of an ONNX value -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_VALUEINFO_H
#define TANDEM_LIB_IMPORT_VALUEINFO_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tandem_onnx {
class TensorProto;
} // namespace tandem_onnx

namespace mlir::tandem::onnx {

/// A dimension, or an element of a tensor that shapes are computed with.
struct SymInt {
  enum Kind : uint8_t { Unknown, Constant, Symbol };

  Kind kind = Unknown;
  /// The constant, or the symbol's number.
  int64_t value = 0;

  static SymInt constant(int64_t value) { return {Constant, value}; }
  static SymInt symbol(int64_t id) { return {Symbol, id}; }

  bool isUnknown() const { return kind == Unknown; }
  bool isSymbol() const { return kind == Symbol; }
  bool isConstant() const { return kind == Constant; }
  bool isConstant(int64_t c) const { return kind == Constant && value == c; }
  /// True when both are known to be the same.
  bool isSame(SymInt other) const {
    return kind != Unknown && kind == other.kind && value == other.value;
  }
};

using SymInts = llvm::SmallVector<SymInt, 4>;

/// Tensors with more elements than this do not take part in shape computations.
constexpr int64_t kMaxShapeElements = 64;

/// What is known of one value.
struct ValueInfo {
  enum Kind : uint8_t { Unknown, Tensor, Sequence, Optional, Other };

  Kind kind = Unknown;
  /// A guess, which a declared type overrides without an error.
  bool isWeak = false;
  bool hasRank = false;
  /// TensorProto.DataType of a tensor's elements; 0 if it is not known.
  int32_t dataType = 0;
  SymInts dims;
  /// The elements of a small integer or boolean tensor of rank 0 or 1, where
  /// some of them are known.
  std::shared_ptr<const SymInts> elements;
  /// The tensor that this value is, if it is a constant.
  const ::tandem_onnx::TensorProto *constant = nullptr;
  /// What a sequence or an optional holds.
  std::shared_ptr<const ValueInfo> element;
  /// The rest of the type of a map, a sparse tensor or an opaque value, as MLIR
  /// spells it after "!onnx.".
  std::string spelling;

  static ValueInfo tensor(int32_t dataType) {
    ValueInfo info;
    info.kind = Tensor;
    info.dataType = dataType;
    return info;
  }
  static ValueInfo tensor(int32_t dataType, llvm::ArrayRef<SymInt> dims) {
    ValueInfo info = tensor(dataType);
    info.hasRank = true;
    info.dims.assign(dims.begin(), dims.end());
    return info;
  }

  bool isTensor() const { return kind == Tensor; }
  bool isRanked() const { return kind == Tensor && hasRank; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  void setDims(llvm::ArrayRef<SymInt> newDims) {
    hasRank = true;
    dims.assign(newDims.begin(), newDims.end());
  }
};

/// The type that holds whatever `a` or `b` hold (an If's branches, a Loop's
/// iterations): what they do not share is unknown.
ValueInfo joinValues(const ValueInfo &a, const ValueInfo &b);

/// Whether both say the same of a value's type.
bool isSameType(const ValueInfo &a, const ValueInfo &b);

/// What came of comparing a declared type with an inferred one.
enum class MergeResult { Ok, DimConflict, TypeConflict, Contradiction };

/// Completes `inferred` with what the model declares. Declared dims win over
/// inferred symbols and unknowns. Where both are constants and differ, the dim
/// becomes unknown (DimConflict). A declared element type wins over a weak one
/// (TypeConflict). Otherwise different kinds, element types or ranks cannot
/// both be right (Contradiction); `inferred` is left alone then.
MergeResult mergeDeclared(ValueInfo &inferred, const ValueInfo &declared);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_VALUEINFO_H
