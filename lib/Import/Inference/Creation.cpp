//===- Creation.cpp - The shapes of tensors made from nothing -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

using namespace mlir::tandem::onnx;
using llvm::SmallVector;
using llvm::Twine;
using ::tandem_onnx::TensorProto;

/// The dims that a shape operand asks for: negative constants and what is not
/// known become unknown.
static bool shapeOperand(NodeInference &n, size_t index, SymInts &dims) {
  SymInts storage;
  if (const SymInts *elements = n.elements(index, storage)) {
    for (SymInt element : *elements)
      dims.push_back(toSize(element));
    return true;
  }
  int64_t rank = lengthOf(n.input(index));
  if (rank < 0 || rank > kMaxShapeElements)
    return false;
  dims.assign(rank, SymInt());
  return true;
}

static void inferExpand(NodeInference &n) {
  const ValueInfo &x = n.input(0);
  setTensor(n, 0, x.dataType);
  SymInts dims;
  if (!x.isRanked() || !n.hasOutput(0) || !shapeOperand(n, 1, dims))
    return;
  n.outputs[0].setDims(broadcastDims(n, x.dims, dims));
}

static void inferConstantOfShape(NodeInference &n) {
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

static void inferRange(NodeInference &n) {
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

/// Random tensors of a given shape.
static void inferRandom(NodeInference &n) {
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
    dims.push_back(toSize(dim));
  n.outputs[0].setDims(dims);
}

const InferenceRule kRules[] = {
    {inferTypedLike, {"EyeLike"}},
    {inferExpand, {"Expand"}},
    {inferConstantOfShape, {"ConstantOfShape"}},
    {inferRange, {"Range"}},
    {inferRandom, {"RandomNormal", "RandomUniform"}},
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::creationRules() {
  return kRules;
}
