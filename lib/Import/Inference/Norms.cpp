//===- Norms.cpp - What norms and reductions do to shapes -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

using namespace mlir::tandem::onnx;
using llvm::SmallVector;

/// The dims of a norm's statistics: 1 from `axis` on.
static void setStatistics(NodeInference &n, size_t index, int32_t dataType,
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
static void inferNorm(NodeInference &n) {
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
static void inferSkipNorm(NodeInference &n) {
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

static void inferReduce(NodeInference &n) {
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

static void inferArgReduce(NodeInference &n) {
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

const InferenceRule kRules[] = {
    {inferNorm,
     {"LayerNormalization", "RMSNormalization",
      "SimplifiedLayerNormalization"}},
    {inferReduce,
     {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
      "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}},
    {inferArgReduce, {"ArgMax", "ArgMin"}},
    {inferNorm, {"SimplifiedLayerNormalization"}, "com.microsoft"},
    {inferSkipNorm,
     {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"},
     "com.microsoft"},
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::normRules() { return kRules; }
