//===- ShapeInference.cpp - Types and shapes of ONNX values -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeInference.h"

#include "TensorData.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using llvm::Twine;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::TensorProto;

//===----------------------------------------------------------------------===//
// NodeInference
//===----------------------------------------------------------------------===//

const ValueInfo &NodeInference::input(size_t index) const {
  static const ValueInfo unknown;
  return hasInput(index) ? *inputs[index] : unknown;
}

const SymInts *NodeInference::elements(size_t index, SymInts &storage) {
  const ValueInfo &info = input(index);
  if (info.elements)
    return info.elements.get();
  if (!info.constant)
    return nullptr;
  return elements(*info.constant, storage);
}

const SymInts *NodeInference::elements(const TensorProto &tensor,
                                       SymInts &storage) {
  if (tensor.data_location() == TensorProto::EXTERNAL && !readsExternal)
    return nullptr;
  std::string error;
  if (!load(tensor, storage, error)) {
    if (!error.empty())
      fail("'" + tensor.name() + "' " + error);
    return nullptr;
  }
  return &storage;
}

const AttributeProto *NodeInference::attribute(StringRef name) const {
  for (const AttributeProto *attribute : attributes)
    if (attribute->name() == name)
      return attribute;
  return nullptr;
}

const AttributeProto *NodeInference::typedAttribute(StringRef name, int type,
                                                    StringRef typeName) {
  const AttributeProto *found = attribute(name);
  if (!found || found->type() == type)
    return found;
  fail("attribute '" + name + "' must be " + typeName);
  return nullptr;
}

int64_t NodeInference::intAttribute(StringRef name, int64_t defaultValue) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INT, "an integer");
  return found ? found->i() : defaultValue;
}

std::optional<int64_t> NodeInference::optionalInt(StringRef name) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INT, "an integer");
  return found ? std::optional<int64_t>(found->i()) : std::nullopt;
}

void NodeInference::checkFloat(StringRef name) {
  typedAttribute(name, AttributeProto::FLOAT, "a float");
}

bool NodeInference::intsAttribute(StringRef name,
                                  SmallVectorImpl<int64_t> &values) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INTS, "a list of integers");
  if (!found)
    return false;
  values.assign(found->ints().begin(), found->ints().end());
  return true;
}

StringRef NodeInference::stringAttribute(StringRef name,
                                         StringRef defaultValue) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::STRING, "a string");
  return found ? StringRef(found->s()) : defaultValue;
}

const TensorProto *NodeInference::tensorAttribute(StringRef name) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::TENSOR, "a tensor");
  return found ? &found->t() : nullptr;
}

//===----------------------------------------------------------------------===//
// Joining and merging
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

namespace {

constexpr int32_t kInt64 = TensorProto::INT64;
constexpr int32_t kBool = TensorProto::BOOL;
constexpr int32_t kFloat = TensorProto::FLOAT;

void copyShape(ValueInfo &out, const ValueInfo &in) {
  if (in.isRanked())
    out.setDims(in.dims);
}

/// Makes output `index` a tensor of `dataType`, shaped like `in`.
void setLike(NodeInference &n, size_t index, int32_t dataType,
             const ValueInfo &in) {
  if (!n.hasOutput(index))
    return;
  n.outputs[index] = ValueInfo::tensor(dataType);
  copyShape(n.outputs[index], in);
}

void setTensor(NodeInference &n, size_t index, int32_t dataType) {
  if (n.hasOutput(index))
    n.outputs[index] = ValueInfo::tensor(dataType);
}

void setTensor(NodeInference &n, size_t index, int32_t dataType,
               ArrayRef<SymInt> dims) {
  if (n.hasOutput(index))
    n.outputs[index] = ValueInfo::tensor(dataType, dims);
}

void setRank(NodeInference &n, size_t index, int32_t dataType, size_t rank) {
  setTensor(n, index, dataType, SymInts(rank));
}

void setElements(NodeInference &n, size_t index, SymInts elements) {
  if (n.hasOutput(index) && elements.size() <= kMaxShapeElements)
    n.outputs[index].elements = std::make_shared<SymInts>(std::move(elements));
}

/// Brings `axis` into [0, rank). Reports one that is out of range.
bool normalizeAxis(NodeInference &n, int64_t &axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    n.fail("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
    return false;
  }
  if (axis < 0)
    axis += rank;
  return true;
}

/// The elements of input `index` if all are constants.
bool constantElements(NodeInference &n, size_t index,
                      SmallVectorImpl<int64_t> &values) {
  SymInts storage;
  const SymInts *elements = n.elements(index, storage);
  if (!elements)
    return false;
  for (SymInt element : *elements) {
    if (!element.isConstant())
      return false;
    values.push_back(element.value);
  }
  return true;
}

/// The number of elements of a rank-1 input; -1 if it is not known.
int64_t lengthOf(const ValueInfo &info) {
  return info.isRanked() && info.rank() == 1 && info.dims[0].isConstant()
             ? info.dims[0].value
             : -1;
}

/// A size computed from constants: unknown if the computation overflowed or
/// went below zero.
SymInt size(int64_t value) {
  return value >= 0 ? SymInt::constant(value) : SymInt();
}

/// The product of dims where it is a constant or one symbol.
SymInt productOf(ArrayRef<SymInt> dims) {
  int64_t constant = 1;
  SymInt symbol;
  bool isKnown = true;
  for (SymInt dim : dims) {
    if (dim.isConstant(0))
      return dim;
    if (dim.isConstant()) {
      if (llvm::MulOverflow(constant, dim.value, constant))
        return SymInt();
    } else if (dim.isSymbol() && symbol.isUnknown()) {
      symbol = dim;
    } else {
      isKnown = false;
    }
  }
  if (!isKnown)
    return SymInt();
  if (symbol.isUnknown())
    return SymInt::constant(constant);
  return constant == 1 ? symbol : SymInt();
}

/// Two dims that must be equal. Reports constants that differ.
SymInt unifyDims(NodeInference &n, SymInt a, SymInt b, const Twine &what) {
  if (a.isConstant() && b.isConstant() && a.value != b.value)
    n.fail(what + ": " + Twine(a.value) + " and " + Twine(b.value) + " differ");
  if (a.isConstant() || b.isUnknown())
    return a;
  return b.isConstant() || a.isUnknown() ? b : a;
}

SymInt broadcastDim(NodeInference &n, SymInt a, SymInt b) {
  if (a.isConstant(1))
    return b;
  if (b.isConstant(1))
    return a;
  if (a.isConstant() && b.isConstant()) {
    if (a.value != b.value)
      n.fail("dimensions " + Twine(a.value) + " and " + Twine(b.value) +
             " do not broadcast");
    return a;
  }
  if (a.isConstant())
    return a;
  if (b.isConstant())
    return b;
  return a.isSame(b) ? a : SymInt();
}

SymInts broadcastDims(NodeInference &n, ArrayRef<SymInt> a,
                      ArrayRef<SymInt> b) {
  SymInts result(std::max(a.size(), b.size()));
  for (size_t i = 0; i != result.size(); ++i) {
    SymInt x = i < a.size() ? a[a.size() - 1 - i] : SymInt::constant(1);
    SymInt y = i < b.size() ? b[b.size() - 1 - i] : SymInt::constant(1);
    result[result.size() - 1 - i] = broadcastDim(n, x, y);
  }
  return result;
}

/// Output 0 gets the broadcast shape of all inputs, if all are ranked.
void broadcastInputs(NodeInference &n, int32_t dataType) {
  setTensor(n, 0, dataType);
  SymInts dims;
  for (const ValueInfo *input : n.inputs) {
    if (!input || !input->isRanked())
      return;
    dims = broadcastDims(n, dims, input->dims);
  }
  if (n.hasOutput(0) && !n.inputs.empty())
    n.outputs[0].setDims(dims);
}

/// The element type that all inputs share. Reports two that differ.
int32_t commonType(NodeInference &n) {
  int32_t common = 0;
  for (const ValueInfo *input : n.inputs) {
    if (!input || !input->isTensor() || input->dataType == 0)
      continue;
    if (common != 0 && input->dataType != common)
      n.fail("operands have different element types, " + dataTypeName(common) +
             " and " + dataTypeName(input->dataType));
    common = input->dataType;
  }
  return common;
}

/// Applies `f` to the elements of inputs 0 and 1, a single one being repeated.
void combineElements(NodeInference &n,
                     llvm::function_ref<SymInt(SymInt, SymInt)> f) {
  SymInts storageA, storageB;
  if (n.inputs.size() != 2 || !n.hasOutput(0))
    return;
  // Only shape arithmetic has elements on one side at least; looking costs
  // nothing otherwise.
  if (!n.input(0).elements && !n.input(1).elements)
    return;
  const SymInts *a = n.elements(0, storageA);
  const SymInts *b = n.elements(1, storageB);
  if (!a || !b || a->empty() || b->empty() ||
      (a->size() != b->size() && a->size() != 1 && b->size() != 1))
    return;
  if (n.input(0).rank() > 1 || n.input(1).rank() > 1)
    return;
  SymInts result;
  for (size_t i = 0, e = std::max(a->size(), b->size()); i != e; ++i)
    result.push_back(
        f((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
  setElements(n, 0, std::move(result));
}

/// The axes of an op that takes them as attribute or, in newer opsets, as
/// input 1. No value if they are an input that is not known; `given` says
/// whether there are any.
std::optional<SmallVector<int64_t>> readAxes(NodeInference &n, bool &given) {
  SmallVector<int64_t> axes;
  given = n.intsAttribute("axes", axes);
  if (given)
    return axes;
  given = n.hasInput(1);
  if (!given)
    return axes;
  SmallVector<int64_t> values;
  if (!constantElements(n, 1, values))
    return std::nullopt;
  return values;
}

/// Marks the axes in a mask of `rank` bits. Reports axes that are out of range
/// or named twice.
bool axesMask(NodeInference &n, ArrayRef<int64_t> axes, int64_t rank,
              SmallVectorImpl<bool> &mask) {
  mask.assign(rank, false);
  for (int64_t axis : axes) {
    if (!normalizeAxis(n, axis, rank))
      return false;
    if (mask[axis]) {
      n.fail("axis " + Twine(axis) + " is named twice");
      return false;
    }
    mask[axis] = true;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Element-wise
//===----------------------------------------------------------------------===//

/// Output 0 is like input 0.
void inferSame(NodeInference &n) {
  setLike(n, 0, n.input(0).dataType, n.input(0));
}

/// Output 0 is input 0, whatever it is. PyTorch's exporter leaves Identity
/// nodes on buffers that it converted only in what it declares, so a declared
/// type is taken.
void inferIdentity(NodeInference &n) {
  if (!n.hasOutput(0))
    return;
  n.outputs[0] = n.input(0);
  n.outputs[0].isWeak = true;
}

/// Like input 0, but boolean.
void inferPredicate(NodeInference &n) { setLike(n, 0, kBool, n.input(0)); }

void inferSoftmax(NodeInference &n) {
  n.intAttribute("axis", -1);
  inferSame(n);
}

void inferDropout(NodeInference &n) {
  inferSame(n);
  setLike(n, 1, kBool, n.input(0));
}

SymInt addSym(SymInt a, SymInt b) {
  int64_t sum;
  if (a.isConstant() && b.isConstant())
    return llvm::AddOverflow(a.value, b.value, sum) ? SymInt()
                                                    : SymInt::constant(sum);
  return a.isConstant(0) ? b : b.isConstant(0) ? a : SymInt();
}

SymInt subSym(SymInt a, SymInt b) {
  int64_t difference;
  if (a.isConstant() && b.isConstant())
    return llvm::SubOverflow(a.value, b.value, difference)
               ? SymInt()
               : SymInt::constant(difference);
  return b.isConstant(0) ? a : SymInt();
}

SymInt mulSym(SymInt a, SymInt b) {
  int64_t product;
  if (a.isConstant() && b.isConstant())
    return llvm::MulOverflow(a.value, b.value, product)
               ? SymInt()
               : SymInt::constant(product);
  if (a.isConstant(0) || b.isConstant(0))
    return SymInt::constant(0);
  return a.isConstant(1) ? b : b.isConstant(1) ? a : SymInt();
}

SymInt divSym(SymInt a, SymInt b) {
  if (b.isConstant(1))
    return a;
  // INT64_MIN / -1 overflows.
  if (a.isConstant() && b.isConstant() && b.value != 0 && b.value != -1)
    return SymInt::constant(a.value / b.value);
  return SymInt();
}

/// Add, Sub, Mul, Div and their like: one element type, broadcast shapes.
void inferArithmetic(NodeInference &n) {
  broadcastInputs(n, commonType(n));
  if (n.opType == "Add")
    combineElements(n, addSym);
  else if (n.opType == "Sub")
    combineElements(n, subSym);
  else if (n.opType == "Mul")
    combineElements(n, mulSym);
  else if (n.opType == "Div")
    combineElements(n, divSym);
}

/// Pow, BitShift, PRelu: the element type is the first operand's.
void inferFirstTyped(NodeInference &n) {
  broadcastInputs(n, n.input(0).dataType);
}

void inferCompare(NodeInference &n) {
  commonType(n);
  broadcastInputs(n, kBool);
  if (n.opType != "Equal")
    return;
  combineElements(n, [](SymInt a, SymInt b) {
    if (a.isConstant() && b.isConstant())
      return SymInt::constant(a.value == b.value);
    if (a.isSame(b))
      return SymInt::constant(1);
    // A symbol is a size and so not negative.
    if ((a.isSymbol() && b.isConstant() && b.value < 0) ||
        (b.isSymbol() && a.isConstant() && a.value < 0))
      return SymInt::constant(0);
    return SymInt();
  });
}

void inferLogical(NodeInference &n) { broadcastInputs(n, kBool); }

void inferWhere(NodeInference &n) {
  int32_t dataType =
      n.input(1).dataType ? n.input(1).dataType : n.input(2).dataType;
  if (n.input(1).dataType && n.input(2).dataType &&
      n.input(1).dataType != n.input(2).dataType)
    n.fail("operands have different element types, " +
           dataTypeName(n.input(1).dataType) + " and " +
           dataTypeName(n.input(2).dataType));
  broadcastInputs(n, dataType);
  if (!n.input(0).elements)
    return;
  SymInts storageA, storageB;
  const SymInts &condition = *n.input(0).elements;
  const SymInts *a = n.elements(1, storageA);
  const SymInts *b = n.elements(2, storageB);
  if (!a || !b || n.input(1).rank() > 1 || n.input(2).rank() > 1)
    return;
  size_t length = std::max({condition.size(), a->size(), b->size()});
  SymInts result;
  for (size_t i = 0; i != length; ++i) {
    auto at = [&](const SymInts &list) {
      return list.size() == 1 ? list[0] : i < list.size() ? list[i] : SymInt();
    };
    SymInt c = at(condition);
    result.push_back(c.isConstant()          ? at(c.value ? *a : *b)
                     : at(*a).isSame(at(*b)) ? at(*a)
                                             : SymInt());
  }
  setElements(n, 0, std::move(result));
}

bool isShapeType(int32_t dataType) {
  return dataType == kInt64 || dataType == TensorProto::INT32;
}

void inferCast(NodeInference &n) {
  std::optional<int64_t> to = n.optionalInt("to");
  if (n.failed())
    return;
  if (!to) {
    n.fail("attribute 'to' is missing");
    return;
  }
  if (*to <= 0 || *to >= kNumDataTypes) {
    n.fail("attribute 'to' is " + Twine(*to) +
           ", which is not an element type");
    return;
  }
  setLike(n, 0, static_cast<int32_t>(*to), n.input(0));
  if (n.hasOutput(0) && isShapeType(static_cast<int32_t>(*to)) &&
      isShapeType(n.input(0).dataType))
    n.outputs[0].elements = n.input(0).elements;
}

void inferCastLike(NodeInference &n) {
  setLike(n, 0, n.input(1).dataType, n.input(0));
  if (n.hasOutput(0) && isShapeType(n.input(1).dataType) &&
      isShapeType(n.input(0).dataType))
    n.outputs[0].elements = n.input(0).elements;
}

/// Ops whose element type is an attribute and whose shape is input 0's.
void inferTypedLike(NodeInference &n) {
  int64_t dataType = n.intAttribute("dtype", n.input(0).dataType);
  if (dataType < 0 || dataType >= kNumDataTypes)
    return n.fail("attribute 'dtype' is " + Twine(dataType) +
                  ", which is not an element type");
  setLike(n, 0, static_cast<int32_t>(dataType), n.input(0));
}

void inferQuantize(NodeInference &n) {
  int32_t dataType = n.hasInput(2) ? n.input(2).dataType : TensorProto::UINT8;
  int64_t output = n.intAttribute("output_dtype", 0);
  if (!n.hasInput(2) && output > 0 && output < kNumDataTypes)
    dataType = static_cast<int32_t>(output);
  setLike(n, 0, dataType, n.input(0));
}

void inferDequantize(NodeInference &n) {
  int64_t output = n.intAttribute("output_dtype", 0);
  setLike(n, 0,
          output > 0 && output < kNumDataTypes ? static_cast<int32_t>(output)
                                               : n.input(1).dataType,
          n.input(0));
}

void inferDynamicQuantize(NodeInference &n) {
  setLike(n, 0, TensorProto::UINT8, n.input(0));
  setTensor(n, 1, kFloat, {});
  setTensor(n, 2, TensorProto::UINT8, {});
}

//===----------------------------------------------------------------------===//
// Norms and reductions
//===----------------------------------------------------------------------===//

/// The dims of a norm's statistics: 1 from `axis` on.
void setStatistics(NodeInference &n, size_t index, int32_t dataType,
                   int64_t axis) {
  if (!n.hasOutput(index))
    return;
  n.outputs[index] = ValueInfo::tensor(dataType);
  const ValueInfo &x = n.input(0);
  if (!x.isRanked())
    return;
  n.outputs[index].setDims(x.dims);
  for (int64_t i = axis; i < x.rank(); ++i)
    n.outputs[index].dims[i] = SymInt::constant(1);
}

/// LayerNormalization, RMSNormalization and SimplifiedLayerNormalization.
void inferNorm(NodeInference &n) {
  n.checkFloat("epsilon");
  int64_t stash = n.intAttribute("stash_type", kFloat);
  int64_t axis = n.intAttribute("axis", -1);
  const ValueInfo &x = n.input(0);
  if (n.failed() || (x.isRanked() && !normalizeAxis(n, axis, x.rank())))
    return;
  inferSame(n);
  // The norms without a mean declare the type of the scale, which writers take
  // for that of x.
  if (n.hasOutput(0) && n.input(1).dataType != 0 &&
      n.input(1).dataType != x.dataType) {
    n.outputs[0].dataType = n.input(1).dataType;
    n.outputs[0].isWeak = true;
  }
  int32_t statistics =
      stash > 0 && stash < kNumDataTypes ? static_cast<int32_t>(stash) : kFloat;
  setStatistics(n, 1, statistics, axis);
  setStatistics(n, 2, statistics, axis);
}

/// com.microsoft's SkipLayerNormalization and SkipSimplifiedLayerNormalization.
void inferSkipNorm(NodeInference &n) {
  n.checkFloat("epsilon");
  const ValueInfo &x = n.input(0);
  if (x.dataType && n.input(1).dataType && x.dataType != n.input(1).dataType)
    n.fail("operands have different element types, " +
           dataTypeName(x.dataType) + " and " +
           dataTypeName(n.input(1).dataType));
  setLike(n, 0, x.dataType, x);
  int64_t last = x.isRanked() ? std::max<int64_t>(0, x.rank() - 1) : 0;
  setStatistics(n, 1, kFloat, last);
  setStatistics(n, 2, kFloat, last);
  setLike(n, 3, x.dataType, x);
}

void inferReduce(NodeInference &n) {
  bool keep = n.intAttribute("keepdims", 1) != 0;
  bool noop = n.intAttribute("noop_with_empty_axes", 0) != 0;
  bool given = false;
  std::optional<SmallVector<int64_t>> axes = readAxes(n, given);
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0))
    return;
  ValueInfo &out = n.outputs[0];
  if (!axes) {
    int64_t count = lengthOf(n.input(1));
    if (keep)
      out.setDims(SymInts(x.rank()));
    else if (count > 0 && count <= x.rank())
      out.setDims(SymInts(x.rank() - count));
    return;
  }
  SmallVector<bool> mask;
  if (axes->empty()) {
    if (noop && (n.opType.starts_with("Reduce")))
      return out.setDims(x.dims);
    mask.assign(x.rank(), true);
  } else if (!axesMask(n, *axes, x.rank(), mask)) {
    return;
  }
  SymInts dims;
  for (int64_t i = 0; i != x.rank(); ++i) {
    if (!mask[i])
      dims.push_back(x.dims[i]);
    else if (keep)
      dims.push_back(SymInt::constant(1));
  }
  out.setDims(dims);
  if (n.opType == "ReduceProd" && x.elements && x.rank() == 1 && mask[0])
    setElements(n, 0, {productOf(*x.elements)});
}

void inferArgReduce(NodeInference &n) {
  bool keep = n.intAttribute("keepdims", 1) != 0;
  int64_t axis = n.intAttribute("axis", 0);
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, kInt64);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0) ||
      !normalizeAxis(n, axis, x.rank()))
    return;
  SymInts dims = x.dims;
  if (keep)
    dims[axis] = SymInt::constant(1);
  else
    dims.erase(dims.begin() + axis);
  n.outputs[0].setDims(dims);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

void inferShape(NodeInference &n) {
  int64_t start = n.intAttribute("start", 0);
  const ValueInfo &x = n.input(0);
  int64_t end = n.intAttribute("end", std::numeric_limits<int64_t>::max());
  if (!x.isRanked())
    return setRank(n, 0, kInt64, 1);
  auto clamp = [&](int64_t position) {
    if (position < 0)
      position += x.rank();
    return std::min(std::max<int64_t>(position, 0), x.rank());
  };
  start = clamp(start);
  end = std::max(start, clamp(end));
  setTensor(n, 0, kInt64, {SymInt::constant(end - start)});
  setElements(n, 0, SymInts(x.dims.begin() + start, x.dims.begin() + end));
}

void inferSize(NodeInference &n) {
  setTensor(n, 0, kInt64, {});
  if (n.input(0).isRanked())
    setElements(n, 0, {productOf(n.input(0).dims)});
}

void inferGather(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 0);
  const ValueInfo &data = n.input(0);
  const ValueInfo &indices = n.input(1);
  setTensor(n, 0, data.dataType);
  if (n.failed() || !data.isRanked() || !normalizeAxis(n, axis, data.rank()) ||
      !indices.isRanked() || !n.hasOutput(0))
    return;
  SymInts dims(data.dims.begin(), data.dims.begin() + axis);
  dims.append(indices.dims.begin(), indices.dims.end());
  dims.append(data.dims.begin() + axis + 1, data.dims.end());
  n.outputs[0].setDims(dims);

  SymInts storage;
  if (data.rank() != 1 || indices.rank() > 1 || !isShapeType(data.dataType))
    return;
  const SymInts *elements = n.elements(0, storage);
  SmallVector<int64_t> positions;
  if (!elements || !constantElements(n, 1, positions))
    return;
  int64_t length = static_cast<int64_t>(elements->size());
  SymInts result;
  for (int64_t position : positions) {
    if (position < -length || position >= length)
      return n.fail("index " + Twine(position) + " is out of range for " +
                    Twine(length) + " elements");
    result.push_back((*elements)[position < 0 ? position + length : position]);
  }
  setElements(n, 0, std::move(result));
}

void inferGatherElements(NodeInference &n) {
  setLike(n, 0, n.input(0).dataType, n.input(1));
}

void inferGatherND(NodeInference &n) {
  int64_t batch = n.intAttribute("batch_dims", 0);
  const ValueInfo &data = n.input(0);
  const ValueInfo &indices = n.input(1);
  setTensor(n, 0, data.dataType);
  if (!data.isRanked() || !indices.isRanked() || !n.hasOutput(0) ||
      indices.rank() == 0 || !indices.dims.back().isConstant())
    return;
  int64_t depth = indices.dims.back().value;
  if (batch < 0 || depth < 0 || batch >= indices.rank() ||
      depth > data.rank() - batch)
    return n.fail("indices of depth " + Twine(depth) + " after " +
                  Twine(batch) + " batch dims do not fit rank " +
                  Twine(data.rank()));
  SymInts dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.append(data.dims.begin() + batch + depth, data.dims.end());
  n.outputs[0].setDims(dims);
}

void inferConcat(NodeInference &n) {
  std::optional<int64_t> axisAttribute = n.optionalInt("axis");
  if (n.failed())
    return;
  int32_t dataType = commonType(n);
  setTensor(n, 0, dataType);
  if (n.inputs.empty() || !n.hasOutput(0))
    return;
  if (!axisAttribute)
    return n.fail("attribute 'axis' is missing");
  const ValueInfo *ranked = nullptr;
  bool allRanked = true;
  for (const ValueInfo *input : n.inputs) {
    if (!input || !input->isRanked()) {
      allRanked = false;
      continue;
    }
    if (ranked && ranked->rank() != input->rank())
      return n.fail("operands have ranks " + Twine(ranked->rank()) + " and " +
                    Twine(input->rank()));
    ranked = input;
  }
  int64_t axis = *axisAttribute;
  if (!ranked || !normalizeAxis(n, axis, ranked->rank()))
    return;
  SymInts dims(ranked->rank());
  SymInt total = allRanked ? SymInt::constant(0) : SymInt();
  for (const ValueInfo *input : n.inputs) {
    if (!input || !input->isRanked())
      continue;
    for (int64_t i = 0; i != input->rank(); ++i)
      if (i != axis)
        dims[i] = unifyDims(n, dims[i], input->dims[i],
                            "dimension " + Twine(i) + " of the operands");
    total = total.isUnknown() ? total : addSym(total, input->dims[axis]);
  }
  dims[axis] = total;
  n.outputs[0].setDims(dims);

  if (ranked->rank() != 1 || !isShapeType(dataType) || !total.isConstant() ||
      total.value > kMaxShapeElements)
    return;
  SymInts result;
  for (size_t i = 0; i != n.inputs.size(); ++i) {
    SymInts storage;
    const SymInts *elements = n.elements(i, storage);
    if (elements &&
        static_cast<int64_t>(elements->size()) == lengthOf(n.input(i)))
      result.append(elements->begin(), elements->end());
    else
      result.append(lengthOf(n.input(i)), SymInt());
  }
  setElements(n, 0, std::move(result));
}

/// The dim that stands for -1 in a Reshape: what is left of `in` when `out` is
/// divided off.
SymInt remainingDim(ArrayRef<SymInt> in, ArrayRef<SymInt> out, size_t hole) {
  SymInts top(in.begin(), in.end());
  int64_t numerator = 1, denominator = 1;
  for (size_t i = 0; i != out.size(); ++i) {
    if (i == hole)
      continue;
    if (out[i].isUnknown())
      return SymInt();
    if (out[i].isConstant()) {
      if (llvm::MulOverflow(denominator, out[i].value, denominator))
        return SymInt();
      continue;
    }
    auto match =
        llvm::find_if(top, [&](SymInt dim) { return dim.isSame(out[i]); });
    if (match == top.end())
      return SymInt();
    top.erase(match);
  }
  SymInt symbol;
  for (SymInt dim : top) {
    if (dim.isUnknown())
      return SymInt();
    if (dim.isSymbol()) {
      if (symbol.isSymbol())
        return SymInt();
      symbol = dim;
    } else if (llvm::MulOverflow(numerator, dim.value, numerator)) {
      return SymInt();
    }
  }
  if (denominator <= 0 || numerator % denominator != 0)
    return SymInt();
  if (symbol.isUnknown())
    return SymInt::constant(numerator / denominator);
  return numerator == denominator ? symbol : SymInt();
}

void inferReshape(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  bool allowZero = n.intAttribute("allowzero", 0) != 0;
  setTensor(n, 0, x.dataType);
  if (!n.hasOutput(0))
    return;
  SymInts storage;
  const SymInts *shape = n.elements(1, storage);
  if (!shape) {
    int64_t rank = lengthOf(n.input(1));
    if (rank >= 0 && rank <= kMaxShapeElements)
      n.outputs[0].setDims(SymInts(rank));
    return;
  }
  SymInts dims;
  std::optional<size_t> hole;
  for (auto [i, element] : llvm::enumerate(*shape)) {
    if (element.isConstant(-1)) {
      if (hole)
        return n.fail("the shape has two dimensions of -1");
      hole = i;
      dims.push_back(SymInt());
    } else if (element.isConstant(0) && !allowZero) {
      if (x.isRanked() && static_cast<int64_t>(i) >= x.rank())
        return n.fail("the shape copies dimension " + Twine(i) +
                      " of an operand of rank " + Twine(x.rank()));
      dims.push_back(x.isRanked() ? x.dims[i] : SymInt());
    } else if (element.isConstant() && element.value < 0) {
      return n.fail("the shape has the dimension " + Twine(element.value));
    } else {
      dims.push_back(element);
    }
  }
  if (hole && x.isRanked())
    dims[*hole] = remainingDim(x.dims, dims, *hole);
  SymInt before = x.isRanked() ? productOf(x.dims) : SymInt(),
         after = productOf(dims);
  if (before.isConstant() && after.isConstant() && before.value != after.value)
    return n.fail("cannot reshape " + Twine(before.value) + " elements to " +
                  Twine(after.value));
  n.outputs[0].setDims(dims);
  if (dims.size() <= 1)
    n.outputs[0].elements = x.elements;
}

void inferFlatten(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 1);
  const ValueInfo &x = n.input(0);
  setRank(n, 0, x.dataType, 2);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0))
    return;
  if (axis < -x.rank() || axis > x.rank())
    return n.fail("axis " + Twine(axis) + " is out of range for rank " +
                  Twine(x.rank()));
  if (axis < 0)
    axis += x.rank();
  ArrayRef<SymInt> dims = x.dims;
  n.outputs[0].setDims(
      {productOf(dims.take_front(axis)), productOf(dims.drop_front(axis))});
}

/// The bounds of a Slice along one axis, brought into the dimension of size
/// `dim`, and the number of elements taken.
int64_t slicedSize(int64_t dim, int64_t &start, int64_t end, int64_t step) {
  auto clamp = [&](int64_t position, int64_t low, int64_t high) {
    if (position < 0)
      position = position < -dim ? -1 : position + dim;
    return std::min(std::max(position, low), high);
  };
  if (step > 0) {
    start = start < -dim ? 0 : clamp(start, 0, dim);
    end = end < -dim ? 0 : clamp(end, 0, dim);
    return start >= end ? 0 : (end - start - 1) / step + 1;
  }
  start = start < -dim ? -1 : clamp(start, 0, dim - 1);
  end = clamp(end, -1, dim - 1);
  // A step of INT64_MIN cannot be negated; its neighbour takes the same
  // elements.
  int64_t back = step == std::numeric_limits<int64_t>::min()
                     ? std::numeric_limits<int64_t>::max()
                     : -step;
  return start <= end ? 0 : (start - end - 1) / back + 1;
}

void inferSlice(NodeInference &n) {
  const ValueInfo &data = n.input(0);
  setTensor(n, 0, data.dataType);
  if (!data.isRanked() || !n.hasOutput(0))
    return;
  SymInts starts, ends;
  SmallVector<int64_t> axes, steps, values;
  bool known = true;
  if (n.inputs.size() == 1) {
    // Before opset 10 the bounds were attributes.
    if (!n.intsAttribute("starts", values)) {
      if (!n.failed())
        n.fail("attribute 'starts' is missing");
      return;
    }
    for (int64_t value : values)
      starts.push_back(SymInt::constant(value));
    if (!n.intsAttribute("ends", values)) {
      if (!n.failed())
        n.fail("attribute 'ends' is missing");
      return;
    }
    for (int64_t value : values)
      ends.push_back(SymInt::constant(value));
    if (!n.intsAttribute("axes", axes))
      for (size_t i = 0; i != starts.size(); ++i)
        axes.push_back(i);
    steps.assign(starts.size(), 1);
  } else {
    SymInts storage;
    int64_t count = lengthOf(n.input(1));
    if (const SymInts *list = n.elements(1, storage))
      starts = *list;
    else if (count >= 0 && count <= kMaxShapeElements)
      starts.assign(count, SymInt());
    else
      known = false;
    storage.clear();
    if (const SymInts *list = n.elements(2, storage))
      ends = *list;
    else
      ends.assign(starts.size(), SymInt());
    if (n.hasInput(3))
      known &= constantElements(n, 3, axes);
    else
      for (size_t i = 0; i != starts.size(); ++i)
        axes.push_back(i);
    if (!n.hasInput(4) || !constantElements(n, 4, steps)) {
      // 0 stands for a step that is not known.
      steps.assign(starts.size(), n.hasInput(4) ? 0 : 1);
    } else if (llvm::is_contained(steps, 0)) {
      return n.fail("a step is 0");
    }
  }
  if (!known)
    return n.outputs[0].setDims(SymInts(data.rank()));
  if (starts.size() != ends.size() || starts.size() != axes.size() ||
      starts.size() != steps.size())
    return n.fail("starts, ends, axes and steps have different lengths");
  SmallVector<bool> mask;
  if (!axesMask(n, axes, data.rank(), mask))
    return;
  SymInts dims = data.dims;
  for (size_t i = 0; i != axes.size(); ++i) {
    SymInt &dim = dims[axes[i] < 0 ? axes[i] + data.rank() : axes[i]];
    bool takesAll = steps[i] == 1 && starts[i].isConstant(0) &&
                    ((ends[i].isConstant() &&
                      ends[i].value >= std::numeric_limits<int32_t>::max()) ||
                     ends[i].isSame(dim));
    if (takesAll && !dim.isConstant())
      continue;
    if (dim.isConstant() && starts[i].isConstant() && ends[i].isConstant() &&
        steps[i] != 0) {
      int64_t start = starts[i].value;
      dim = SymInt::constant(
          slicedSize(dim.value, start, ends[i].value, steps[i]));
    } else {
      dim = SymInt();
    }
  }
  n.outputs[0].setDims(dims);

  SymInts storage;
  if (data.rank() != 1 || starts.size() != 1 || !isShapeType(data.dataType) ||
      !dims[0].isConstant() || steps[0] == 0 || !starts[0].isConstant() ||
      !ends[0].isConstant())
    return;
  const SymInts *elements = n.elements(0, storage);
  if (!elements ||
      !data.dims[0].isConstant(static_cast<int64_t>(elements->size())))
    return;
  int64_t start = starts[0].value;
  int64_t count = slicedSize(static_cast<int64_t>(elements->size()), start,
                             ends[0].value, steps[0]);
  SymInts result;
  // Unsigned, because the step after the last one may overflow.
  for (uint64_t i = 0, at = start; i != static_cast<uint64_t>(count);
       ++i, at += static_cast<uint64_t>(steps[0]))
    result.push_back((*elements)[at]);
  setElements(n, 0, std::move(result));
}

void inferSqueeze(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  bool given = false;
  std::optional<SmallVector<int64_t>> axes = readAxes(n, given);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0))
    return;
  SmallVector<bool> mask;
  if (!axes) {
    int64_t count = lengthOf(n.input(1));
    if (count >= 0 && count <= x.rank())
      n.outputs[0].setDims(SymInts(x.rank() - count));
    return;
  }
  if (!given) {
    // All dims of size 1 go, so every dim must be known.
    for (SymInt dim : x.dims) {
      if (!dim.isConstant())
        return;
      mask.push_back(dim.value == 1);
    }
  } else if (!axesMask(n, *axes, x.rank(), mask)) {
    return;
  }
  SymInts dims;
  for (int64_t i = 0; i != x.rank(); ++i) {
    if (!mask[i])
      dims.push_back(x.dims[i]);
    else if (x.dims[i].isConstant() && x.dims[i].value != 1)
      return n.fail("cannot squeeze dimension " + Twine(i) + " of size " +
                    Twine(x.dims[i].value));
  }
  n.outputs[0].setDims(dims);
  if (dims.size() <= 1)
    n.outputs[0].elements = x.elements;
}

void inferUnsqueeze(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  bool given = false;
  std::optional<SmallVector<int64_t>> axes = readAxes(n, given);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0))
    return;
  if (!given)
    return n.fail("axes are missing");
  if (!axes) {
    int64_t count = lengthOf(n.input(1));
    if (count >= 0 && count <= kMaxShapeElements)
      n.outputs[0].setDims(SymInts(x.rank() + count));
    return;
  }
  int64_t rank = x.rank() + static_cast<int64_t>(axes->size());
  SmallVector<bool> mask;
  if (!axesMask(n, *axes, rank, mask))
    return;
  SymInts dims;
  const SymInt *next = x.dims.begin();
  for (int64_t i = 0; i != rank; ++i)
    dims.push_back(mask[i] ? SymInt::constant(1) : *next++);
  n.outputs[0].setDims(dims);
  if (rank != 1)
    return;
  if (x.elements) {
    n.outputs[0].elements = x.elements;
  } else {
    SymInts storage;
    if (isShapeType(x.dataType) && n.elements(0, storage))
      setElements(n, 0, std::move(storage));
  }
}

void inferTranspose(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  SmallVector<int64_t> perm;
  bool given = n.intsAttribute("perm", perm);
  if (n.failed() || !x.isRanked() || !n.hasOutput(0))
    return;
  if (!given)
    return n.outputs[0].setDims(SymInts(x.dims.rbegin(), x.dims.rend()));
  SmallVector<bool> mask;
  if (static_cast<int64_t>(perm.size()) != x.rank())
    return n.fail("attribute 'perm' has " + Twine(perm.size()) +
                  " entries for rank " + Twine(x.rank()));
  if (!axesMask(n, perm, x.rank(), mask))
    return;
  SymInts dims;
  for (int64_t axis : perm)
    dims.push_back(x.dims[axis < 0 ? axis + x.rank() : axis]);
  n.outputs[0].setDims(dims);
}

/// The dims that a shape operand asks for: negative constants and what is not
/// known become unknown.
bool shapeOperand(NodeInference &n, size_t index, SymInts &dims) {
  SymInts storage;
  if (const SymInts *elements = n.elements(index, storage)) {
    for (SymInt element : *elements)
      dims.push_back(element.isConstant() ? size(element.value) : element);
    return true;
  }
  int64_t rank = lengthOf(n.input(index));
  if (rank < 0 || rank > kMaxShapeElements)
    return false;
  dims.assign(rank, SymInt());
  return true;
}

void inferExpand(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  SymInts dims;
  if (!x.isRanked() || !n.hasOutput(0) || !shapeOperand(n, 1, dims))
    return;
  n.outputs[0].setDims(broadcastDims(n, x.dims, dims));
}

void inferConstantOfShape(NodeInference &n) {
  const TensorProto *value = n.tensorAttribute("value");
  if (n.failed())
    return;
  int32_t dataType = value ? value->data_type() : kFloat;
  setTensor(n, 0, dataType);
  SymInts dims;
  if (!n.hasOutput(0) || !shapeOperand(n, 0, dims))
    return;
  n.outputs[0].setDims(dims);
  SymInts fill;
  if (value && isShapeType(dataType) && dims.size() == 1 &&
      dims[0].isConstant() && dims[0].value <= kMaxShapeElements &&
      n.elements(*value, fill) && fill.size() == 1)
    setElements(n, 0, SymInts(dims[0].value, fill[0]));
}

void inferTile(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  if (!x.isRanked() || !n.hasOutput(0))
    return;
  SymInts storage;
  const SymInts *repeats = n.elements(1, storage);
  SymInts dims(x.rank());
  if (repeats) {
    if (static_cast<int64_t>(repeats->size()) != x.rank())
      return n.fail("there are " + Twine(repeats->size()) +
                    " repeats for rank " + Twine(x.rank()));
    for (int64_t i = 0; i != x.rank(); ++i) {
      SymInt dim = mulSym(x.dims[i], (*repeats)[i]);
      dims[i] = dim.isConstant() ? size(dim.value) : dim;
    }
  }
  n.outputs[0].setDims(dims);
}

void inferPad(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  if (!x.isRanked() || !n.hasOutput(0))
    return;
  SymInts dims(x.rank());
  SmallVector<int64_t> pads;
  bool known = n.inputs.size() > 1 ? constantElements(n, 1, pads)
                                   : n.intsAttribute("pads", pads);
  if (known && !n.hasInput(3) &&
      static_cast<int64_t>(pads.size()) == 2 * x.rank())
    for (int64_t i = 0; i != x.rank(); ++i) {
      SymInt dim = addSym(addSym(x.dims[i], SymInt::constant(pads[i])),
                          SymInt::constant(pads[i + x.rank()]));
      dims[i] = dim.isConstant() ? size(dim.value) : dim;
    }
  n.outputs[0].setDims(dims);
}

void inferRange(NodeInference &n) {
  int32_t dataType =
      n.input(0).dataType ? n.input(0).dataType : n.input(2).dataType;
  setRank(n, 0, dataType, 1);
  if (!n.hasOutput(0) || !isShapeType(dataType))
    return;
  SymInts a, b, c;
  const SymInts *start = n.elements(0, a), *limit = n.elements(1, b),
                *delta = n.elements(2, c);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 ||
      delta->size() != 1)
    return;
  SymInt step = (*delta)[0], span = subSym((*limit)[0], (*start)[0]);
  if (step.isConstant(0))
    return n.fail("delta is 0");
  if (step.isConstant(1) && span.isSymbol())
    n.outputs[0].dims[0] = span;
  if (!step.isConstant() || !span.isConstant())
    return;
  int64_t count = 0;
  if (step.value > 0 && span.value > 0)
    count = (span.value - 1) / step.value + 1;
  else if (step.value < 0 && span.value < 0)
    // One less on both sides keeps INT64_MIN from overflowing.
    count = (span.value + 1) / step.value + 1;
  n.outputs[0].dims[0] = SymInt::constant(count);
}

void inferOneHot(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", -1);
  const ValueInfo &indices = n.input(0);
  setTensor(n, 0, n.input(2).dataType);
  if (n.failed() || !indices.isRanked() || !n.hasOutput(0) ||
      !normalizeAxis(n, axis, indices.rank() + 1))
    return;
  SymInts dims = indices.dims, storage;
  SymInt depth;
  if (const SymInts *elements = n.elements(1, storage))
    if (elements->size() == 1)
      depth = (*elements)[0].isConstant() ? size((*elements)[0].value)
                                          : (*elements)[0];
  dims.insert(dims.begin() + axis, depth);
  n.outputs[0].setDims(dims);
}

void inferTopK(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", -1);
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  setTensor(n, 1, kInt64);
  if (n.failed() || !x.isRanked() || !normalizeAxis(n, axis, x.rank()))
    return;
  SymInts dims = x.dims, storage;
  dims[axis] = SymInt();
  if (const SymInts *k = n.elements(1, storage))
    if (k->size() == 1)
      dims[axis] = (*k)[0].isConstant() ? size((*k)[0].value) : (*k)[0];
  setTensor(n, 0, x.dataType, dims);
  setTensor(n, 1, kInt64, dims);
}

void inferNonZero(NodeInference &n) {
  setTensor(
      n, 0, kInt64,
      {n.input(0).isRanked() ? SymInt::constant(n.input(0).rank()) : SymInt(),
       SymInt()});
}

/// Splits `dim` into `count` parts, all of one size but the last.
SymInt partSize(SymInt dim, int64_t index, int64_t count) {
  if (count == 1)
    return dim;
  if (!dim.isConstant())
    return SymInt();
  int64_t part = dim.value / count + (dim.value % count != 0);
  int64_t before;
  if (llvm::MulOverflow(part, index, before))
    return SymInt();
  return SymInt::constant(
      std::min(part, std::max<int64_t>(0, dim.value - before)));
}

void inferSplit(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 0);
  const ValueInfo &x = n.input(0);
  int64_t count = static_cast<int64_t>(n.outputs.size());
  for (int64_t i = 0; i != count; ++i)
    setTensor(n, i, x.dataType);
  if (n.failed() || !x.isRanked() || !normalizeAxis(n, axis, x.rank()))
    return;
  SmallVector<int64_t> sizes;
  bool given = n.intsAttribute("split", sizes) || n.hasInput(1);
  bool known = !n.hasInput(1) || constantElements(n, 1, sizes);
  if (given && known && static_cast<int64_t>(sizes.size()) != count)
    return n.fail("it has " + Twine(count) + " outputs, but is split into " +
                  Twine(sizes.size()));
  for (int64_t i = 0; i != count; ++i) {
    SymInts dims = x.dims;
    dims[axis] = given ? (known ? size(sizes[i]) : SymInt())
                       : partSize(x.dims[axis], i, count);
    n.outputs[i].setDims(dims);
  }
}

void inferCompress(NodeInference &n) {
  std::optional<int64_t> axis = n.optionalInt("axis");
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  if (!n.hasOutput(0))
    return;
  if (!axis)
    return n.outputs[0].setDims(SymInts(1));
  if (!x.isRanked() || !normalizeAxis(n, *axis, x.rank()))
    return;
  n.outputs[0].setDims(x.dims);
  n.outputs[0].dims[*axis] = SymInt();
}

void inferUnique(NodeInference &n) {
  std::optional<int64_t> axis = n.optionalInt("axis");
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  for (size_t i = 1; i != 4; ++i)
    setRank(n, i, kInt64, 1);
  if (!n.hasOutput(0))
    return;
  if (!axis)
    return n.outputs[0].setDims(SymInts(1));
  if (!x.isRanked() || !normalizeAxis(n, *axis, x.rank()))
    return;
  n.outputs[0].setDims(x.dims);
  n.outputs[0].dims[*axis] = SymInt();
}

/// Resize, Upsample: the rank stays.
void inferRankOnly(NodeInference &n) {
  setTensor(n, 0, n.input(0).dataType);
  if (n.hasOutput(0) && n.input(0).isRanked())
    n.outputs[0].setDims(SymInts(n.input(0).rank()));
}

void inferEyeLike(NodeInference &n) { inferTypedLike(n); }

/// Random tensors of a given shape.
void inferRandom(NodeInference &n) {
  int64_t dataType = n.intAttribute("dtype", kFloat);
  SmallVector<int64_t> shape;
  bool given = n.intsAttribute("shape", shape);
  if (n.failed())
    return;
  if (dataType <= 0 || dataType >= kNumDataTypes)
    return n.fail("attribute 'dtype' is " + Twine(dataType) +
                  ", which is not an element type");
  setTensor(n, 0, static_cast<int32_t>(dataType));
  if (!given || !n.hasOutput(0))
    return;
  SymInts dims;
  for (int64_t dim : shape)
    dims.push_back(size(dim));
  n.outputs[0].setDims(dims);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The shape of a numpy matmul.
void matMulShape(NodeInference &n, const ValueInfo &a, const ValueInfo &b) {
  if (!a.isRanked() || !b.isRanked() || !n.hasOutput(0))
    return;
  if (a.rank() == 0 || b.rank() == 0)
    return n.fail("a matrix product needs operands of rank 1 or more");
  SymInts left = a.dims, right = b.dims;
  if (a.rank() == 1)
    left.insert(left.begin(), SymInt::constant(1));
  if (b.rank() == 1)
    right.push_back(SymInt::constant(1));
  unifyDims(n, left.back(), right[right.size() - 2],
            "inner dimensions of the product");
  if (n.failed())
    return;
  SymInts dims = broadcastDims(n, ArrayRef<SymInt>(left).drop_back(2),
                               ArrayRef<SymInt>(right).drop_back(2));
  if (a.rank() != 1)
    dims.push_back(left[left.size() - 2]);
  if (b.rank() != 1)
    dims.push_back(right.back());
  n.outputs[0].setDims(dims);
}

void inferMatMul(NodeInference &n) {
  const ValueInfo &a = n.input(0), &b = n.input(1);
  if (a.dataType && b.dataType && a.dataType != b.dataType)
    return n.fail("operands have different element types, " +
                  dataTypeName(a.dataType) + " and " +
                  dataTypeName(b.dataType));
  setTensor(n, 0, a.dataType ? a.dataType : b.dataType);
  matMulShape(n, a, b);
}

void inferMatMulInteger(NodeInference &n) {
  setTensor(n, 0, TensorProto::INT32);
  matMulShape(n, n.input(0), n.input(1));
}

void inferQLinearMatMul(NodeInference &n) {
  setTensor(n, 0, n.input(7).dataType);
  matMulShape(n, n.input(0), n.input(3));
}

void inferGemm(NodeInference &n) {
  bool transA = n.intAttribute("transA", 0) != 0;
  bool transB = n.intAttribute("transB", 0) != 0;
  const ValueInfo &a = n.input(0), &b = n.input(1);
  setRank(n, 0, a.dataType ? a.dataType : b.dataType, 2);
  if (!n.hasOutput(0))
    return;
  for (const ValueInfo *operand : {&a, &b})
    if (operand->isRanked() && operand->rank() != 2)
      return n.fail("operands must be matrices, not of rank " +
                    Twine(operand->rank()));
  if (a.isRanked())
    n.outputs[0].dims[0] = a.dims[transA ? 1 : 0];
  if (b.isRanked())
    n.outputs[0].dims[1] = b.dims[transB ? 0 : 1];
  if (a.isRanked() && b.isRanked())
    unifyDims(n, a.dims[transA ? 0 : 1], b.dims[transB ? 1 : 0],
              "inner dimensions of the product");
}

/// Conv: batch and channels; the sizes of the picture are left to value_info.
void inferConv(NodeInference &n) {
  const ValueInfo &x = n.input(0), &w = n.input(1);
  setTensor(n, 0, x.dataType);
  if (!x.isRanked() || x.rank() < 2 || !n.hasOutput(0))
    return;
  SymInts dims(x.rank());
  dims[0] = x.dims[0];
  if (w.isRanked() && w.rank() == x.rank())
    dims[1] = w.dims[0];
  n.outputs[0].setDims(dims);
}

void inferPool(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  setTensor(n, 1, kInt64);
  if (!x.isRanked() || x.rank() < 2 || !n.hasOutput(0))
    return;
  SymInts dims(x.rank());
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  n.outputs[0].setDims(dims);
}

void inferGlobalPool(NodeInference &n) {
  inferPool(n);
  if (n.hasOutput(0) && n.outputs[0].isRanked())
    for (SymInt &dim :
         llvm::MutableArrayRef<SymInt>(n.outputs[0].dims).drop_front(2))
      dim = SymInt::constant(1);
}

/// ai.onnx's Attention. Q is [batch, heads, length, size] or [batch, length,
/// hidden].
void inferAttention(NodeInference &n) {
  const ValueInfo &q = n.input(0), &v = n.input(2);
  int64_t queryHeads = n.intAttribute("q_num_heads", 0),
          keyHeads = n.intAttribute("kv_num_heads", 0);
  setTensor(n, 0, q.dataType);
  setRank(n, 1, n.input(1).dataType, 4);
  setRank(n, 2, v.dataType, 4);
  setRank(n, 3, q.dataType, 4);
  if (n.failed() || !n.hasOutput(0) || !q.isRanked() ||
      (q.rank() != 3 && q.rank() != 4))
    return;
  SymInts dims = q.dims;
  dims.back() = SymInt();
  if (v.isRanked() && v.rank() == 4 && q.rank() == 4)
    dims.back() = v.dims.back();
  SymInt width = v.isRanked() && v.rank() == 3 ? v.dims.back() : SymInt();
  int64_t total;
  if (q.rank() == 3 && width.isConstant() && queryHeads > 0 && keyHeads > 0 &&
      width.value % keyHeads == 0 &&
      !llvm::MulOverflow(width.value / keyHeads, queryHeads, total))
    dims.back() = SymInt::constant(total);
  n.outputs[0].setDims(dims);
}

void inferSwiGLU(NodeInference &n) { broadcastInputs(n, commonType(n)); }

/// LinearAttention, CausalConvWithState: output like input 0, the state like
/// the past state.
void inferWithState(NodeInference &n) {
  if (n.opType == "CausalConvWithState")
    inferSame(n);
  else
    inferRankOnly(n);
  setTensor(n, 1, n.input(3).dataType);
}

void inferRecurrent(NodeInference &n) {
  setRank(n, 0, n.input(0).dataType, 4);
  setRank(n, 1, n.input(0).dataType, 3);
  setRank(n, 2, n.input(0).dataType, 3);
}

void inferEinsum(NodeInference &n) { setTensor(n, 0, commonType(n)); }

//===----------------------------------------------------------------------===//
// Sequences and optionals
//===----------------------------------------------------------------------===//

/// Sequences hold tensors only, so types never nest deeper with every node.
void setSequence(NodeInference &n, size_t index, ValueInfo element) {
  if (!n.hasOutput(index))
    return;
  if (!element.isTensor())
    element = ValueInfo();
  element.elements = nullptr;
  element.constant = nullptr;
  n.outputs[index] = ValueInfo();
  n.outputs[index].kind = ValueInfo::Sequence;
  n.outputs[index].element = std::make_shared<ValueInfo>(std::move(element));
}

void inferSplitToSequence(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 0);
  bool keep = n.intAttribute("keepdims", 1) != 0;
  const ValueInfo &x = n.input(0);
  ValueInfo part = ValueInfo::tensor(x.dataType);
  if (!n.failed() && x.isRanked() && normalizeAxis(n, axis, x.rank())) {
    part.setDims(x.dims);
    part.dims[axis] = n.hasInput(1) ? SymInt() : SymInt::constant(1);
    if (!n.hasInput(1) && !keep)
      part.dims.erase(part.dims.begin() + axis);
  }
  setSequence(n, 0, std::move(part));
}

void inferSequenceAt(NodeInference &n) {
  const ValueInfo &sequence = n.input(0);
  if (n.hasOutput(0) && sequence.kind == ValueInfo::Sequence &&
      sequence.element)
    n.outputs[0] = *sequence.element;
}

void inferSequenceConstruct(NodeInference &n) {
  if (n.inputs.empty())
    return;
  ValueInfo element = n.input(0);
  for (size_t i = 1; i != n.inputs.size(); ++i)
    element = joinValues(element, n.input(i));
  setSequence(n, 0, std::move(element));
}

void inferSequenceEmpty(NodeInference &n) {
  int64_t dataType = n.intAttribute("dtype", kFloat);
  if (dataType > 0 && dataType < kNumDataTypes)
    setSequence(n, 0, ValueInfo::tensor(static_cast<int32_t>(dataType)));
}

void inferSequenceInsert(NodeInference &n) {
  const ValueInfo &sequence = n.input(0);
  if (sequence.kind == ValueInfo::Sequence && sequence.element)
    setSequence(n, 0, joinValues(*sequence.element, n.input(1)));
}

void inferSequenceErase(NodeInference &n) {
  if (n.hasOutput(0) && n.input(0).kind == ValueInfo::Sequence)
    n.outputs[0] = n.input(0);
}

void inferSequenceLength(NodeInference &n) { setTensor(n, 0, kInt64, {}); }

void inferConcatFromSequence(NodeInference &n) {
  bool newAxis = n.intAttribute("new_axis", 0) != 0;
  const ValueInfo &sequence = n.input(0);
  if (sequence.kind != ValueInfo::Sequence || !sequence.element ||
      !sequence.element->isTensor())
    return;
  setTensor(n, 0, sequence.element->dataType);
  if (sequence.element->hasRank && n.hasOutput(0))
    n.outputs[0].setDims(SymInts(sequence.element->rank() + (newAxis ? 1 : 0)));
}

void inferScalarBool(NodeInference &n) { setTensor(n, 0, kBool, {}); }

void inferOptionalGetElement(NodeInference &n) {
  if (!n.hasOutput(0))
    return;
  const ValueInfo &x = n.input(0);
  if (x.kind == ValueInfo::Optional && x.element)
    n.outputs[0] = *x.element;
  else if (x.kind == ValueInfo::Tensor || x.kind == ValueInfo::Sequence)
    n.outputs[0] = x;
}

void inferOptional(NodeInference &n) {
  if (!n.hasOutput(0) || !n.hasInput(0))
    return;
  ValueInfo held = n.input(0);
  if (held.kind != ValueInfo::Tensor && held.kind != ValueInfo::Sequence)
    held = ValueInfo();
  held.elements = nullptr;
  held.constant = nullptr;
  n.outputs[0].kind = ValueInfo::Optional;
  n.outputs[0].element = std::make_shared<ValueInfo>(std::move(held));
}

//===----------------------------------------------------------------------===//
// Collectives and com.microsoft
//===----------------------------------------------------------------------===//

/// AllReduce and its like are variadic: each output is like its input.
void inferAllReduce(NodeInference &n) {
  for (size_t i = 0; i != n.outputs.size() && i != n.inputs.size(); ++i)
    setLike(n, i, n.input(i).dataType, n.input(i));
}

void inferAllGather(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 0);
  int64_t ranks = n.intAttribute("group_size", 1);
  const ValueInfo &x = n.input(0);
  setLike(n, 0, x.dataType, x);
  if (n.failed() || !n.hasOutput(0) || !x.isRanked() ||
      !normalizeAxis(n, axis, x.rank()))
    return;
  SymInt dim = mulSym(x.dims[axis], SymInt::constant(ranks));
  n.outputs[0].dims[axis] = dim.isConstant() ? size(dim.value) : dim;
}

/// TensorRT's DistCollective: only some of its operations keep the shape.
void inferDistCollective(NodeInference &n) {
  StringRef operation = n.stringAttribute("collective_operation", "");
  if (operation == "all_reduce" || operation == "broadcast" ||
      operation == "reduce")
    return inferSame(n);
  inferRankOnly(n);
}

void inferGroupQueryAttention(NodeInference &n) {
  const ValueInfo &q = n.input(0);
  setTensor(n, 0, q.dataType);
  // Without a key, query, key and value are packed into one.
  if (n.hasInput(1))
    copyShape(n.outputs[0], q);
  else if (q.isRanked())
    inferRankOnly(n);
  setRank(n, 1, n.input(3).dataType ? n.input(3).dataType : q.dataType, 4);
  setRank(n, 2, n.input(4).dataType ? n.input(4).dataType : q.dataType, 4);
}

void inferMatMulNBits(NodeInference &n) {
  int64_t width = n.intAttribute("N", -1);
  const ValueInfo &a = n.input(0);
  setLike(n, 0, a.dataType, a);
  if (n.hasOutput(0) && a.isRanked() && a.rank() > 0)
    n.outputs[0].dims.back() = size(width);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

struct Entry {
  InferFn function;
  std::initializer_list<const char *> ops;
};

const Entry kOnnxOps[] = {
    {inferSame,
     {"Abs",
      "Acos",
      "Acosh",
      "Asin",
      "Asinh",
      "Atan",
      "Atanh",
      "BatchNormalization",
      "BitwiseNot",
      "Ceil",
      "Celu",
      "Clip",
      "Cos",
      "Cosh",
      "CumProd",
      "CumSum",
      "Elu",
      "Erf",
      "Exp",
      "Floor",
      "Gelu",
      "GroupNormalization",
      "HardSigmoid",
      "HardSwish",
      "InstanceNormalization",
      "LRN",
      "LeakyRelu",
      "Log",
      "LpNormalization",
      "MeanVarianceNormalization",
      "Mish",
      "Neg",
      "Not",
      "Reciprocal",
      "Relu",
      "ReverseSequence",
      "Round",
      "Scatter",
      "ScatterElements",
      "ScatterND",
      "Selu",
      "Shrink",
      "Sigmoid",
      "Sign",
      "Sin",
      "Sinh",
      "Softplus",
      "Softsign",
      "Sqrt",
      "Swish",
      "Tan",
      "Tanh",
      "TensorScatter",
      "ThresholdedRelu",
      "Trilu",
      "RotaryEmbedding"}},
    {inferIdentity, {"Identity"}},
    {inferPredicate, {"IsInf", "IsNaN", "RegexFullMatch"}},
    {inferSoftmax, {"Softmax", "LogSoftmax", "Hardmax"}},
    {inferDropout, {"Dropout"}},
    {inferArithmetic,
     {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Mean", "Sum",
      "BitwiseAnd", "BitwiseOr", "BitwiseXor"}},
    {inferFirstTyped, {"Pow", "BitShift"}},
    {inferSame, {"PRelu"}},
    {inferCompare,
     {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}},
    {inferLogical, {"And", "Or", "Xor"}},
    {inferWhere, {"Where"}},
    {inferCast, {"Cast"}},
    {inferCastLike, {"CastLike"}},
    {inferTypedLike, {"Bernoulli", "RandomNormalLike", "RandomUniformLike"}},
    {inferEyeLike, {"EyeLike"}},
    {inferQuantize, {"QuantizeLinear"}},
    {inferDequantize, {"DequantizeLinear"}},
    {inferDynamicQuantize, {"DynamicQuantizeLinear"}},
    {inferNorm,
     {"LayerNormalization", "RMSNormalization",
      "SimplifiedLayerNormalization"}},
    {inferReduce,
     {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
      "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}},
    {inferArgReduce, {"ArgMax", "ArgMin"}},
    {inferShape, {"Shape"}},
    {inferSize, {"Size"}},
    {inferGather, {"Gather"}},
    {inferGatherElements, {"GatherElements"}},
    {inferGatherND, {"GatherND"}},
    {inferConcat, {"Concat"}},
    {inferReshape, {"Reshape"}},
    {inferFlatten, {"Flatten"}},
    {inferSlice, {"Slice"}},
    {inferSqueeze, {"Squeeze"}},
    {inferUnsqueeze, {"Unsqueeze"}},
    {inferTranspose, {"Transpose"}},
    {inferExpand, {"Expand"}},
    {inferConstantOfShape, {"ConstantOfShape"}},
    {inferTile, {"Tile"}},
    {inferPad, {"Pad"}},
    {inferRange, {"Range"}},
    {inferOneHot, {"OneHot"}},
    {inferTopK, {"TopK"}},
    {inferNonZero, {"NonZero"}},
    {inferSplit, {"Split"}},
    {inferCompress, {"Compress"}},
    {inferUnique, {"Unique"}},
    {inferRankOnly, {"Resize", "Upsample"}},
    {inferRandom, {"RandomNormal", "RandomUniform"}},
    {inferMatMul, {"MatMul"}},
    {inferMatMulInteger, {"MatMulInteger"}},
    {inferQLinearMatMul, {"QLinearMatMul"}},
    {inferGemm, {"Gemm"}},
    {inferConv, {"Conv"}},
    {inferPool, {"AveragePool", "LpPool", "MaxPool"}},
    {inferGlobalPool, {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"}},
    {inferAttention, {"Attention"}},
    {inferSwiGLU, {"SwiGLU"}},
    {inferWithState, {"CausalConvWithState", "LinearAttention"}},
    {inferRecurrent, {"GRU", "LSTM", "RNN"}},
    {inferEinsum, {"Einsum"}},
    {inferSplitToSequence, {"SplitToSequence"}},
    {inferSequenceAt, {"SequenceAt"}},
    {inferSequenceConstruct, {"SequenceConstruct"}},
    {inferSequenceEmpty, {"SequenceEmpty"}},
    {inferSequenceInsert, {"SequenceInsert"}},
    {inferSequenceErase, {"SequenceErase"}},
    {inferSequenceLength, {"SequenceLength"}},
    {inferConcatFromSequence, {"ConcatFromSequence"}},
    {inferScalarBool, {"OptionalHasElement"}},
    {inferOptionalGetElement, {"OptionalGetElement"}},
    {inferOptional, {"Optional"}},
    // These two are not ai.onnx's, but stand in its domain in real graphs.
    {inferDistCollective, {"DistCollective"}},
    {inferAllReduce, {"NcclAllReduce"}},
};

const Entry kMicrosoftOps[] = {
    {inferAllReduce, {"AllReduce", "NcclAllReduce"}},
    {inferAllGather, {"AllGather"}},
    {inferNorm, {"SimplifiedLayerNormalization"}},
    {inferSkipNorm,
     {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}},
    {inferSame,
     {"BiasGelu", "FastGelu", "Gelu", "MoE", "QMoE", "QuickGelu",
      "RotaryEmbedding"}},
    {inferGroupQueryAttention, {"GroupQueryAttention"}},
    {inferMatMulNBits, {"MatMulNBits"}},
};

const Entry kEdgeLlmOps[] = {
    {inferAllReduce, {"AllReducePlugin"}},
};

class Table {
public:
  Table() {
    add("", kOnnxOps);
    add("com.microsoft", kMicrosoftOps);
    add("trt_edgellm", kEdgeLlmOps);
  }

  InferFn find(StringRef domain, StringRef opType) const {
    auto ops = domains.find(domain);
    return ops == domains.end() ? nullptr : ops->second.lookup(opType);
  }

private:
  void add(StringRef domain, ArrayRef<Entry> entries) {
    for (const Entry &entry : entries)
      for (const char *op : entry.ops)
        domains[domain][op] = entry.function;
  }

  llvm::StringMap<llvm::StringMap<InferFn>> domains;
};

} // namespace

InferFn mlir::tandem::onnx::findInference(StringRef domain, StringRef opType) {
  static const Table table;
  return table.find(domain, opType);
}
