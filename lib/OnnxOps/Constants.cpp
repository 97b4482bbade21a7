//===- Constants.cpp - Reading small constants ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tandem;

/// The element of `type` that lies at `bytes`, little-endian as MLIR's
/// resources are.
static APInt readBits(ArrayRef<char> bytes) {
  uint64_t bits = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    bits = bits << 8 | static_cast<uint8_t>(bytes[i]);
  return APInt(bytes.size() * 8, bits);
}

static int64_t toInt64(const APInt &value, Type type) {
  return type.isUnsignedInteger() || type.isInteger(1)
             ? static_cast<int64_t>(value.getZExtValue())
             : value.getSExtValue();
}

/// Reads elements that lie in a resource of the module, not inline.
static std::optional<SmallConstant>
readResource(DenseResourceElementsAttr attr) {
  AsmResourceBlob *blob = attr.getRawHandle().getBlob();
  auto type = dyn_cast<RankedTensorType>(attr.getType());
  if (!blob || !type)
    return std::nullopt;
  Type elementType = type.getElementType();
  if (!elementType.isIntOrFloat())
    return std::nullopt;
  unsigned width = elementType.getIntOrFloatBitWidth();
  if (width % 8 != 0 || width > 64)
    return std::nullopt;
  ArrayRef<char> data = blob->getData();
  size_t bytes = width / 8;
  auto count = static_cast<size_t>(type.getNumElements());
  if (data.size() != count * bytes)
    return std::nullopt;
  SmallConstant constant;
  constant.type = type;
  for (size_t i = 0; i != count; ++i) {
    APInt bits = readBits(data.slice(i * bytes, bytes));
    if (auto floatType = dyn_cast<FloatType>(elementType))
      constant.floats.emplace_back(floatType.getFloatSemantics(), bits);
    else
      constant.ints.push_back(toInt64(bits, elementType));
  }
  return constant;
}

static std::optional<SmallConstant> readElements(ElementsAttr attr,
                                                 int64_t maxElements) {
  if (!attr.getShapedType().hasStaticShape() ||
      attr.getNumElements() > maxElements)
    return std::nullopt;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return readResource(resource);
  SmallConstant constant;
  constant.type = dyn_cast<RankedTensorType>(attr.getShapedType());
  Type elementType = attr.getElementType();
  if (isa<FloatType>(elementType)) {
    auto values = attr.tryGetValues<APFloat>();
    if (!values)
      return std::nullopt;
    llvm::append_range(constant.floats, *values);
    return constant;
  }
  auto integerType = dyn_cast<IntegerType>(elementType);
  if (!integerType || integerType.getWidth() > 64)
    return std::nullopt;
  auto values = attr.tryGetValues<APInt>();
  if (!values)
    return std::nullopt;
  for (const APInt &value : *values)
    constant.ints.push_back(toInt64(value, elementType));
  return constant;
}

/// Reads the attribute of a constant in whatever form: elements, a number, or
/// a list of numbers.
static std::optional<SmallConstant> readAttr(Attribute attr, Type resultType,
                                             int64_t maxElements) {
  if (auto elements = dyn_cast_if_present<ElementsAttr>(attr))
    return readElements(elements, maxElements);
  SmallConstant constant;
  constant.type = getRankedTensorType(resultType);
  auto add = [&](Attribute element) {
    if (auto number = dyn_cast<FloatAttr>(element)) {
      constant.floats.push_back(number.getValue());
      return true;
    }
    auto integer = dyn_cast<IntegerAttr>(element);
    if (!integer || integer.getValue().getBitWidth() > 64)
      return false;
    constant.ints.push_back(toInt64(integer.getValue(), integer.getType()));
    return true;
  };
  if (auto array = dyn_cast_if_present<ArrayAttr>(attr)) {
    if (static_cast<int64_t>(array.size()) > maxElements ||
        !llvm::all_of(array, add) ||
        (!constant.floats.empty() && !constant.ints.empty()))
      return std::nullopt;
    return constant;
  }
  if (!attr || !add(attr))
    return std::nullopt;
  return constant;
}

/// Converts in the way of ONNX's Cast. The result is what the Cast computes,
/// so a constant rounded to f16 is read as rounded.
static std::optional<SmallConstant> castTo(SmallConstant constant,
                                           RankedTensorType type) {
  if (!type)
    return std::nullopt;
  if (auto floatType = dyn_cast<FloatType>(type.getElementType())) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    bool losesInfo = false;
    for (APFloat &value : constant.floats)
      value.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    for (int64_t value : constant.ints) {
      APFloat converted(semantics);
      converted.convertFromAPInt(APInt(64, value, /*isSigned=*/true),
                                 /*IsSigned=*/true,
                                 APFloat::rmNearestTiesToEven);
      constant.floats.push_back(converted);
    }
    constant.ints.clear();
  } else if (!constant.floats.empty() || !type.getElementType().isInteger(64)) {
    // Float to integer and narrowing are not needed, and have corner cases.
    return std::nullopt;
  }
  constant.type = type;
  return constant;
}

/// Whether the op keeps the elements and changes only their shape.
static bool isReshapeLike(OnnxNode node) {
  return node.is("Reshape") || node.is("Unsqueeze") || node.is("Squeeze") ||
         node.is("Identity");
}

/// Whether a Constant's `value` says where its elements are, not what. By its
/// name, as this library knows no dialect.
static bool isExternal(Attribute value) {
  return value && value.getAbstractAttribute().getName() == "tandem.external";
}

ElementsAttr mlir::tandem::getExternalElements(Operation *op) {
  OnnxNode node(op);
  if (!node.is("Constant") || op->getNumResults() != 1 ||
      !isExternal(node.getAttr("value")))
    return {};
  auto elements = op->getAttrOfType<ElementsAttr>(externalElementsAttrName);
  return elements && elements.getType() == op->getResult(0).getType()
             ? elements
             : ElementsAttr();
}

/// No exporter stacks more ops than this on a constant; a limit bounds the
/// recursion.
static constexpr unsigned kMaxDepth = 8;

static std::optional<SmallConstant> evaluate(Value value, int64_t maxElements,
                                             unsigned depth) {
  Operation *def = value ? value.getDefiningOp() : nullptr;
  if (!def || def->getNumResults() != 1)
    return std::nullopt;
  OnnxNode node(def);
  if (!node) {
    if (def->getName().getStringRef() == "torch.vtensor.literal")
      return readAttr(def->getAttr("value"), value.getType(), maxElements);
    Attribute attr;
    if (!matchPattern(def, m_Constant(&attr)))
      return std::nullopt;
    return readAttr(attr, value.getType(), maxElements);
  }
  if (node.is("Constant")) {
    if (ElementsAttr elements = getExternalElements(def))
      return readElements(elements, maxElements);
    for (StringRef name :
         {"value", "value_float", "value_int", "value_floats", "value_ints"})
      if (Attribute attr = node.getAttr(name))
        return readAttr(attr, value.getType(), maxElements);
    return std::nullopt;
  }
  if (def->getNumOperands() == 0 || depth == kMaxDepth)
    return std::nullopt;
  bool isCast = node.is("Cast") || node.is("CastLike");
  if (!isCast && !isReshapeLike(node))
    return std::nullopt;
  auto constant = evaluate(def->getOperand(0), maxElements, depth + 1);
  if (!constant)
    return std::nullopt;
  RankedTensorType type = getRankedTensorType(value);
  if (isCast)
    return castTo(std::move(*constant), type);
  constant->type = type;
  return constant;
}

std::optional<SmallConstant>
mlir::tandem::getSmallConstant(Value value, int64_t maxElements) {
  return evaluate(value, maxElements, /*depth=*/0);
}

bool mlir::tandem::isUnreadConstant(Value value, int64_t maxElements) {
  for (unsigned depth = 0; depth <= kMaxDepth; ++depth) {
    OnnxNode node(value ? value.getDefiningOp() : nullptr);
    if (!node)
      return false;
    Operation *op = node.getOperation();
    if (node.is("Constant")) {
      RankedTensorType type = getRankedTensorType(value);
      return isExternal(node.getAttr("value")) && !getExternalElements(op) &&
             type && type.hasStaticShape() &&
             type.getNumElements() <= maxElements;
    }
    if (op->getNumOperands() == 0 ||
        (!node.is("Cast") && !node.is("CastLike") && !isReshapeLike(node)))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

std::optional<double> mlir::tandem::getConstantScalar(Value value) {
  auto constant = getSmallConstant(value);
  if (!constant || constant->size() != 1)
    return std::nullopt;
  if (constant->floats.empty())
    return static_cast<double>(constant->ints.front());
  APFloat number = constant->floats.front();
  bool losesInfo = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  if (losesInfo && !number.isNaN())
    return std::nullopt;
  return number.convertToDouble();
}

std::optional<SmallVector<int64_t>> mlir::tandem::getConstantInts(Value value) {
  auto constant = getSmallConstant(value);
  if (!constant || !constant->floats.empty() ||
      (constant->type && constant->type.getRank() > 1))
    return std::nullopt;
  return SmallVector<int64_t>(constant->ints.begin(), constant->ints.end());
}
