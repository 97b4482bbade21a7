//===- Constants.cpp - Constants to arith ---------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "tandem/Dialect/Tandem.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

/// Bytes of `type`'s elements as ONNX stores them: a byte for a boolean.
static std::optional<uint64_t> getStoredBytes(RankedTensorType type) {
  int64_t bytes = (type.getElementType().getIntOrFloatBitWidth() + 7) / 8;
  for (int64_t size : type.getShape())
    if (size < 0 || llvm::MulOverflow(bytes, size, bytes))
      return std::nullopt;
  return bytes;
}

/// Elements over `bytes`, which are copied. A scalar must not be a resource:
/// memref.global of rank 0 can't be lowered then.
static ElementsAttr makeElements(RankedTensorType type, ArrayRef<char> bytes,
                                 StringRef name) {
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : bytes)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, values);
  }
  if (type.getRank() == 0)
    return DenseElementsAttr::getFromRawBuffer(type, bytes);
  return DenseResourceElementsAttr::get(
      type, name, HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, 64));
}

/// The elements in `value`, in a form that MLIR can store; null after an error.
static ElementsAttr getElements(NodeLowering &lowering, Attribute value) {
  RankedTensorType declared = lowering.getResultType();
  if (auto external = dyn_cast<ExternalDataAttr>(value)) {
    if (!declared || !declared.hasStaticShape() ||
        !isSupportedElementType(declared.getElementType())) {
      (void)lowering.error(
          "is external data of a type that can't be computed with");
      return nullptr;
    }
    // What other nodes were lowered by must be what this one gives.
    if (ElementsAttr known = getExternalElements(lowering.node.getOperation());
        known && known.getType() == declared)
      return getElements(lowering, known);
    std::optional<uint64_t> size = getStoredBytes(declared);
    if (!size || (external.getLength() >= 0 &&
                  static_cast<uint64_t>(external.getLength()) != *size)) {
      (void)lowering.error("is external data of " +
                           Twine(external.getLength()) +
                           " bytes, which is not the size of its type");
      return nullptr;
    }
    onnx::ExternalRef ref{external.getLocation().str(), external.getOffset(),
                          external.getLength()};
    SmallVector<char> bytes;
    std::string error;
    if (!lowering.readExternal(ref, *size, bytes, error)) {
      (void)lowering.error(error);
      return nullptr;
    }
    return makeElements(declared, bytes, ref.location);
  }
  auto elements = dyn_cast<ElementsAttr>(value);
  auto type =
      elements ? dyn_cast<RankedTensorType>(elements.getType()) : nullptr;
  if (!type || !isSupportedElementType(type.getElementType())) {
    (void)lowering.error("holds elements that can't be computed with");
    return nullptr;
  }
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  if (!resource)
    return elements;
  AsmResourceBlob *blob = resource.getRawHandle().getBlob();
  if (!blob || blob->getData().size() != getStoredBytes(type)) {
    (void)lowering.error("has no data, or not the size that its type has; was "
                         "the text written with its weights left out?");
    return nullptr;
  }
  // Booleans in resources are bytes, which other passes wouldn't know.
  if (type.getElementType().isInteger(1) || type.getRank() == 0)
    return makeElements(type, blob->getData(), "");
  return elements;
}

/// Constant, in the forms that the importer leaves (all of them as `value`)
/// and onnx-mlir's value_float, value_int, value_floats and value_ints.
static LogicalResult lowerConstant(NodeLowering &lowering, Results &results) {
  OpBuilder &builder = lowering.builder;
  OnnxNode node = lowering.node;
  ElementsAttr elements;
  if (Attribute value = node.getAttr("value")) {
    elements = getElements(lowering, value);
    if (!elements)
      return failure();
  } else if (auto number = node.getFloat("value_float")) {
    elements =
        DenseElementsAttr::get(RankedTensorType::get({}, builder.getF32Type()),
                               static_cast<float>(*number));
  } else if (auto integer = node.getInt("value_int")) {
    elements = DenseElementsAttr::get(
        RankedTensorType::get({}, builder.getI64Type()), *integer);
  } else if (auto ints = node.getInts("value_ints")) {
    elements = DenseElementsAttr::get(
        RankedTensorType::get(ints->size(), builder.getI64Type()),
        ArrayRef<int64_t>(*ints));
  } else if (auto floats =
                 dyn_cast_or_null<ArrayAttr>(node.getAttr("value_floats"))) {
    SmallVector<float> values;
    for (Attribute attr : floats)
      if (auto value = dyn_cast<FloatAttr>(attr))
        values.push_back(value.getValue().convertToFloat());
    elements = DenseElementsAttr::get(
        RankedTensorType::get(values.size(), builder.getF32Type()),
        ArrayRef<float>(values));
  } else {
    return lowering.error("holds no value that can be computed with");
  }
  results.push_back(arith::ConstantOp::create(builder, lowering.loc, elements));
  return success();
}

LowerFn mlir::tandem::lookupConstant(StringRef opType) {
  return opType == "Constant" ? lowerConstant : nullptr;
}
