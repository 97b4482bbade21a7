//===- OnnxOps.cpp - ONNX nodes, in whatever dialect they stand -----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/OnnxOps.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tandem;

/// Cuts onnx-mlir's version suffix off: ReduceMeanV13 -> ReduceMean.
static StringRef dropVersion(StringRef opType) {
  size_t end = opType.size();
  while (end != 0 && llvm::isDigit(opType[end - 1]))
    --end;
  if (end == opType.size() || end < 2 || opType[end - 1] != 'V')
    return opType;
  return opType.take_front(end - 1);
}

StringRef mlir::tandem::getTorchOperatorName(Operation *op) {
  if (op->getName().getStringRef() != "torch.operator")
    return {};
  auto name = op->getAttrOfType<StringAttr>("name");
  if (!name)
    return {};
  StringRef text = name.getValue();
  text.consume_front("torch.");
  return text;
}

OnnxNode::OnnxNode(Operation *candidate) {
  if (!candidate)
    return;
  StringRef name = candidate->getName().getStringRef();
  if (name.consume_front("onnx.")) {
    op = candidate;
    opType = dropVersion(name);
    if (name != "Custom")
      return;
    auto function = op->getAttrOfType<StringAttr>("function_name");
    if (!function) {
      op = nullptr;
      return;
    }
    opType = function.getValue();
    if (auto attr = op->getAttrOfType<StringAttr>("domain_name"))
      domain = canonicalDomain(attr.getValue());
    return;
  }
  StringRef torchName = getTorchOperatorName(candidate);
  if (!torchName.consume_front("onnx."))
    return;
  op = candidate;
  opType = dropVersion(torchName);
  isTorch = true;
}

bool mlir::tandem::isLeftOut(Value value) {
  Operation *def = value.getDefiningOp();
  StringRef name = def ? def->getName().getStringRef() : StringRef();
  return name == "onnx.NoValue" || name == "torch.constant.none";
}

bool mlir::tandem::isAbsent(Value value) {
  return !value || isa<NoneType>(value.getType()) || isLeftOut(value);
}

Value OnnxNode::getInput(unsigned index) const {
  if (index >= op->getNumOperands())
    return {};
  Value value = op->getOperand(index);
  return isAbsent(value) ? Value() : value;
}

Attribute OnnxNode::getAttr(StringRef name) const {
  if (!isTorch)
    return op->getAttr(name);
  SmallString<32> torchName("torch.onnx.");
  torchName += name;
  return op->getAttr(torchName);
}

std::optional<int64_t> OnnxNode::getInt(StringRef name) const {
  auto attr = dyn_cast_if_present<IntegerAttr>(getAttr(name));
  if (!attr || attr.getValue().getBitWidth() > 64)
    return std::nullopt;
  return attr.getType().isUnsignedInteger()
             ? static_cast<int64_t>(attr.getValue().getZExtValue())
             : attr.getValue().getSExtValue();
}

std::optional<double> OnnxNode::getFloat(StringRef name) const {
  auto attr = dyn_cast_if_present<FloatAttr>(getAttr(name));
  if (!attr)
    return std::nullopt;
  return attr.getValueAsDouble();
}

std::optional<StringRef> OnnxNode::getString(StringRef name) const {
  auto attr = dyn_cast_if_present<StringAttr>(getAttr(name));
  if (!attr)
    return std::nullopt;
  return attr.getValue();
}

std::optional<SmallVector<int64_t>> OnnxNode::getInts(StringRef name) const {
  Attribute attr = getAttr(name);
  SmallVector<int64_t> values;
  if (auto dense = dyn_cast_if_present<DenseI64ArrayAttr>(attr)) {
    values.assign(dense.asArrayRef().begin(), dense.asArrayRef().end());
    return values;
  }
  auto array = dyn_cast_if_present<ArrayAttr>(attr);
  if (!array)
    return std::nullopt;
  for (Attribute element : array) {
    auto integer = dyn_cast<IntegerAttr>(element);
    if (!integer || integer.getValue().getBitWidth() > 64)
      return std::nullopt;
    values.push_back(integer.getValue().getSExtValue());
  }
  return values;
}

bool mlir::tandem::isOnnxOp(Operation *op, StringRef type) {
  return OnnxNode(op).is(type);
}

Value mlir::tandem::getNoopCastOperand(Operation *op) {
  if (!op || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getOperand(0).getType() != op->getResult(0).getType())
    return {};
  OnnxNode node(op);
  if (!node.is("Cast") && !node.is("Identity") && !node.is("CastLike"))
    return {};
  // Of a tensor that isn't known, neither is the element type.
  if (!isa<TensorType>(op->getOperand(0).getType()) &&
      !getRankedTensorType(op->getOperand(0)))
    return {};
  return op->getOperand(0);
}

Value mlir::tandem::lookThroughNoopCasts(Value value) {
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    Value operand = getNoopCastOperand(value.getDefiningOp());
    if (!operand)
      break;
    value = operand;
  }
  return value;
}
