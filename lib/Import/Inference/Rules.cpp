//===- Rules.cpp - What the inference of many ops shares ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include "TensorData.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::Twine;
using ::tandem_onnx::TensorProto;

void mlir::tandem::onnx::copyShape(ValueInfo &out, const ValueInfo &in) {
  if (in.isRanked())
    out.setDims(in.dims);
}

void mlir::tandem::onnx::setLike(NodeInference &n, size_t index,
                                 int32_t dataType, const ValueInfo &in) {
  if (!n.hasOutput(index))
    return;
  n.outputs[index] = ValueInfo::tensor(dataType);
  copyShape(n.outputs[index], in);
}

void mlir::tandem::onnx::setTensor(NodeInference &n, size_t index,
                                   int32_t dataType) {
  if (n.hasOutput(index))
    n.outputs[index] = ValueInfo::tensor(dataType);
}

void mlir::tandem::onnx::setTensor(NodeInference &n, size_t index,
                                   int32_t dataType, ArrayRef<SymInt> dims) {
  if (n.hasOutput(index))
    n.outputs[index] = ValueInfo::tensor(dataType, dims);
}

void mlir::tandem::onnx::setRank(NodeInference &n, size_t index,
                                 int32_t dataType, size_t rank) {
  setTensor(n, index, dataType, SymInts(rank));
}

void mlir::tandem::onnx::setElements(NodeInference &n, size_t index,
                                     SymInts elements) {
  if (n.hasOutput(index) && elements.size() <= kMaxShapeElements)
    n.outputs[index].elements = std::make_shared<SymInts>(std::move(elements));
}

bool mlir::tandem::onnx::normalizeAxis(NodeInference &n, int64_t &axis,
                                       int64_t rank) {
  if (axis < -rank || axis >= rank) {
    n.fail("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
    return false;
  }
  if (axis < 0)
    axis += rank;
  return true;
}

bool mlir::tandem::onnx::constantElements(NodeInference &n, size_t index,
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

int64_t mlir::tandem::onnx::lengthOf(const ValueInfo &info) {
  return info.isRanked() && info.rank() == 1 && info.dims[0].isConstant()
             ? info.dims[0].value
             : -1;
}

SymInt mlir::tandem::onnx::toSize(int64_t value) {
  return value >= 0 ? SymInt::constant(value) : SymInt();
}

SymInt mlir::tandem::onnx::toSize(SymInt value) {
  return value.isConstant() ? toSize(value.value) : value;
}

SymInt mlir::tandem::onnx::productOf(ArrayRef<SymInt> dims) {
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

SymInt mlir::tandem::onnx::unifyDims(NodeInference &n, SymInt a, SymInt b,
                                     const Twine &what) {
  if (a.isConstant() && b.isConstant() && a.value != b.value)
    n.fail(what + ": " + Twine(a.value) + " and " + Twine(b.value) + " differ");
  if (a.isConstant() || b.isUnknown())
    return a;
  return b.isConstant() || a.isUnknown() ? b : a;
}

SymInt mlir::tandem::onnx::broadcastDim(NodeInference &n, SymInt a, SymInt b) {
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

SymInts mlir::tandem::onnx::broadcastDims(NodeInference &n, ArrayRef<SymInt> a,
                                          ArrayRef<SymInt> b) {
  SymInts result(std::max(a.size(), b.size()));
  for (size_t i = 0; i != result.size(); ++i) {
    SymInt x = i < a.size() ? a[a.size() - 1 - i] : SymInt::constant(1);
    SymInt y = i < b.size() ? b[b.size() - 1 - i] : SymInt::constant(1);
    result[result.size() - 1 - i] = broadcastDim(n, x, y);
  }
  return result;
}

void mlir::tandem::onnx::broadcastInputs(NodeInference &n, int32_t dataType) {
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

int32_t mlir::tandem::onnx::commonType(NodeInference &n) {
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

void mlir::tandem::onnx::combineElements(
    NodeInference &n, llvm::function_ref<SymInt(SymInt, SymInt)> f) {
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

std::optional<SmallVector<int64_t>>
mlir::tandem::onnx::readAxes(NodeInference &n, bool &given) {
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

bool mlir::tandem::onnx::axesMask(NodeInference &n, ArrayRef<int64_t> axes,
                                  int64_t rank, SmallVectorImpl<bool> &mask) {
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

void mlir::tandem::onnx::inferSame(NodeInference &n) {
  setLike(n, 0, n.input(0).dataType, n.input(0));
}

SymInt mlir::tandem::onnx::addSym(SymInt a, SymInt b) {
  int64_t sum;
  if (a.isConstant() && b.isConstant())
    return llvm::AddOverflow(a.value, b.value, sum) ? SymInt()
                                                    : SymInt::constant(sum);
  return a.isConstant(0) ? b : b.isConstant(0) ? a : SymInt();
}

SymInt mlir::tandem::onnx::subSym(SymInt a, SymInt b) {
  int64_t difference;
  if (a.isConstant() && b.isConstant())
    return llvm::SubOverflow(a.value, b.value, difference)
               ? SymInt()
               : SymInt::constant(difference);
  return b.isConstant(0) ? a : SymInt();
}

SymInt mlir::tandem::onnx::divSym(SymInt a, SymInt b) {
  if (b.isConstant(1))
    return a;
  // INT64_MIN / -1 overflows.
  if (a.isConstant() && b.isConstant() && b.value != 0 && b.value != -1)
    return SymInt::constant(a.value / b.value);
  return SymInt();
}

bool mlir::tandem::onnx::isShapeType(int32_t dataType) {
  return dataType == kInt64 || dataType == TensorProto::INT32;
}

SymInt mlir::tandem::onnx::mulSym(SymInt a, SymInt b) {
  int64_t product;
  if (a.isConstant() && b.isConstant())
    return llvm::MulOverflow(a.value, b.value, product)
               ? SymInt()
               : SymInt::constant(product);
  if (a.isConstant(0) || b.isConstant(0))
    return SymInt::constant(0);
  return a.isConstant(1) ? b : b.isConstant(1) ? a : SymInt();
}

void mlir::tandem::onnx::inferTypedLike(NodeInference &n) {
  int64_t dataType = n.intAttribute("dtype", n.input(0).dataType);
  if (dataType < 0 || dataType >= kNumDataTypes)
    return n.fail("attribute 'dtype' is " + Twine(dataType) +
                  ", which is not an element type");
  setLike(n, 0, static_cast<int32_t>(dataType), n.input(0));
}

void mlir::tandem::onnx::inferRankOnly(NodeInference &n) {
  setTensor(n, 0, n.input(0).dataType);
  if (n.hasOutput(0) && n.input(0).isRanked())
    n.outputs[0].setDims(SymInts(n.input(0).rank()));
}
