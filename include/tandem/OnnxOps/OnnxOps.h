//===- OnnxOps.h - ONNX nodes, in whatever dialect they stand - -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ONNX nodes reach MLIR in several spellings. The passes know them by name and
// attribute, never by C++ class, so that they work in a host that has an onnx
// or torch dialect of its own, in one that has none, and with other versions:
//
//   "onnx.Add"(%a, %b)                            also "onnx.ReduceMeanV13"
//   "onnx.Custom"(%x) {function_name = "AllReduce",
//                      domain_name = "com.microsoft"}
//   torch.operator "onnx.Add"(%a, %b)             attributes `torch.onnx.*`,
//                                                 types `!torch.vtensor`
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ONNXOPS_ONNXOPS_H
#define TANDEM_ONNXOPS_ONNXOPS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::tandem {

/// ai.onnx may be spelled "ai.onnx" or "". The form to compare domains in: "".
inline StringRef canonicalDomain(StringRef domain) {
  return domain == "ai.onnx" ? StringRef() : domain;
}
/// The form to show, which keys of attributes have too: "ai.onnx".
inline StringRef domainName(StringRef domain) {
  return domain.empty() ? StringRef("ai.onnx") : domain;
}

/// A view of an operation as the ONNX node that it spells; false where it
/// spells none. Cheap to make and to copy, owns nothing.
class OnnxNode {
public:
  OnnxNode() = default;
  explicit OnnxNode(Operation *op);

  explicit operator bool() const { return op != nullptr; }
  Operation *getOperation() const { return op; }

  /// The op type without a version suffix: "ReduceMean", also for
  /// `onnx.ReduceMeanV13`.
  StringRef getOpType() const { return opType; }

  /// The domain: "" for ai.onnx.
  StringRef getDomain() const { return domain; }

  /// False in `torch.operator` form, whose importers drop the domain.
  bool isDomainKnown() const { return !isTorch; }
  bool isTorchOperator() const { return isTorch; }

  /// Whether this is the ai.onnx op `type`.
  bool is(StringRef type) const {
    return op && domain.empty() && opType == type;
  }

  /// Whether this is the op `type` of `wantedDomain` ("" is ai.onnx). In
  /// `torch.operator` form the type alone decides.
  bool is(StringRef type, StringRef wantedDomain) const {
    return op && opType == type && (isTorch || domain == wantedDomain);
  }

  /// The node's input, null where it is left out: past the end, or an
  /// `onnx.NoValue` or `torch.constant.none`.
  Value getInput(unsigned index) const;
  unsigned getNumInputs() const { return op->getNumOperands(); }

  /// The attribute of this ONNX name, null where it is not given.
  Attribute getAttr(StringRef name) const;
  std::optional<int64_t> getInt(StringRef name) const;
  std::optional<double> getFloat(StringRef name) const;
  std::optional<StringRef> getString(StringRef name) const;
  std::optional<SmallVector<int64_t>> getInts(StringRef name) const;

private:
  Operation *op = nullptr;
  StringRef opType;
  StringRef domain;
  bool isTorch = false;
};

/// Whether `op` is the ai.onnx op `type`, in any spelling.
bool isOnnxOp(Operation *op, StringRef type);

/// The name of a `torch.operator`, without the prefix `torch.`; "" for other
/// ops. ("onnx.Add", "_c10d_functional.all_reduce".)
StringRef getTorchOperatorName(Operation *op);

/// Whether the value is an `onnx.NoValue` or `torch.constant.none`.
bool isLeftOut(Value value);

/// Whether the value stands for an input that is left out: one of these, null,
/// or of the type none.
bool isAbsent(Value value);

/// `type` as a ranked tensor: itself, or what a `!torch.vtensor` with known
/// sizes and element type says. Null for all else.
RankedTensorType getRankedTensorType(Type type);
inline RankedTensorType getRankedTensorType(Value value) {
  return getRankedTensorType(value.getType());
}

/// If `op` is a Cast, CastLike or Identity that changes nothing (operand and
/// result have one type), the operand that it passes on; else null.
Value getNoopCastOperand(Operation *op);

/// How many casts that change nothing are looked through in a row. Exporters
/// leave two or three; without an end, a cycle in unreachable code has none.
inline constexpr unsigned maxNoopCasts = 64;

/// The value behind casts that change nothing, at most `maxNoopCasts`.
Value lookThroughNoopCasts(Value value);

/// What a constant value holds, for constants of few elements: scalars and
/// short lists. Reads ONNX Constants in all forms (value, value_float,
/// value_ints, ...), `arith.constant` and other constant-like ops, torch
/// literals, elements inline, as a resource, or external as the importer read
/// them; and through Cast, Identity, Reshape, Squeeze and Unsqueeze of such.
struct SmallConstant {
  /// Null where the constant's type is not a ranked tensor.
  RankedTensorType type;
  /// One entry an element, by the element type's kind.
  SmallVector<APFloat, 1> floats;
  SmallVector<int64_t, 4> ints;

  size_t size() const { return floats.empty() ? ints.size() : floats.size(); }
};

/// How many elements a small constant has at most.
inline constexpr int64_t maxSmallElements = 8;

/// What a small Constant in external data holds, beside the `value` that says
/// where it is: no more than the importer found there, so it may be missing.
inline constexpr StringLiteral externalElementsAttrName("tandem.elements");

/// Returns std::nullopt where `value` is no constant, can't be read without
/// loading a file, or has more than `maxElements` elements.
std::optional<SmallConstant>
getSmallConstant(Value value, int64_t maxElements = maxSmallElements);

/// Whether `value` is a constant of at most `maxElements` elements that can't
/// be read because it is in external data that the importer did not find.
bool isUnreadConstant(Value value, int64_t maxElements = maxSmallElements);

/// What the importer read of the external data that the Constant `op` has as
/// its value; null where it did not.
ElementsAttr getExternalElements(Operation *op);

/// The element of a constant with exactly one element (of any rank), exactly
/// converted to f64; std::nullopt for all else.
std::optional<double> getConstantScalar(Value value);

/// The elements of an integer constant of rank 0 or 1.
std::optional<SmallVector<int64_t>> getConstantInts(Value value);

} // namespace mlir::tandem

#endif // TANDEM_ONNXOPS_ONNXOPS_H
