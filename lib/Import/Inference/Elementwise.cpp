//===- Elementwise.cpp - What element-wise ops do to shapes ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir::tandem::onnx;
using llvm::Twine;
using ::tandem_onnx::TensorProto;

/// Output 0 is input 0, whatever it is. PyTorch's exporter leaves Identity
/// nodes on buffers that it converted only in what it declares, so a declared
/// type is taken.
static void inferIdentity(NodeInference &n) {
  if (!n.hasOutput(0))
    return;
  n.outputs[0] = n.input(0);
  n.outputs[0].isWeak = true;
}

/// Like input 0, but boolean.
static void inferPredicate(NodeInference &n) {
  setLike(n, 0, kBool, n.input(0));
}

static void inferSoftmax(NodeInference &n) {
  n.intAttribute("axis", -1);
  inferSame(n);
}

static void inferDropout(NodeInference &n) {
  inferSame(n);
  setLike(n, 1, kBool, n.input(0));
}

/// Add, Sub, Mul, Div and their like: one element type, broadcast shapes.
static void inferArithmetic(NodeInference &n) {
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
static void inferFirstTyped(NodeInference &n) {
  broadcastInputs(n, n.input(0).dataType);
}

static void inferCompare(NodeInference &n) {
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

static void inferLogical(NodeInference &n) { broadcastInputs(n, kBool); }

static void inferWhere(NodeInference &n) {
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

static void inferCast(NodeInference &n) {
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

static void inferCastLike(NodeInference &n) {
  setLike(n, 0, n.input(1).dataType, n.input(0));
  if (n.hasOutput(0) && isShapeType(n.input(1).dataType) &&
      isShapeType(n.input(0).dataType))
    n.outputs[0].elements = n.input(0).elements;
}

static void inferQuantize(NodeInference &n) {
  int32_t dataType = n.hasInput(2) ? n.input(2).dataType : TensorProto::UINT8;
  int64_t output = n.intAttribute("output_dtype", 0);
  if (!n.hasInput(2) && output > 0 && output < kNumDataTypes)
    dataType = static_cast<int32_t>(output);
  setLike(n, 0, dataType, n.input(0));
}

static void inferDequantize(NodeInference &n) {
  int64_t output = n.intAttribute("output_dtype", 0);
  setLike(n, 0,
          output > 0 && output < kNumDataTypes ? static_cast<int32_t>(output)
                                               : n.input(1).dataType,
          n.input(0));
}

static void inferDynamicQuantize(NodeInference &n) {
  setLike(n, 0, TensorProto::UINT8, n.input(0));
  setTensor(n, 1, kFloat, {});
  setTensor(n, 2, TensorProto::UINT8, {});
}

static void inferSwiGLU(NodeInference &n) { broadcastInputs(n, commonType(n)); }

const InferenceRule kRules[] = {
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
    {inferQuantize, {"QuantizeLinear"}},
    {inferDequantize, {"DequantizeLinear"}},
    {inferDynamicQuantize, {"DynamicQuantizeLinear"}},
    {inferRankOnly, {"Resize", "Upsample"}},
    {inferSwiGLU, {"SwiGLU"}},
    {inferSame,
     {"BiasGelu", "FastGelu", "Gelu", "MoE", "QMoE", "QuickGelu",
      "RotaryEmbedding"},
     "com.microsoft"},
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::elementwiseRules() {
  return kRules;
}
