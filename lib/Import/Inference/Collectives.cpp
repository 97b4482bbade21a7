//===- Collectives.cpp - What collectives do to shapes --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

using namespace mlir::tandem::onnx;
using llvm::StringRef;

/// AllReduce and its like are variadic: each output is like its input.
static void inferAllReduce(NodeInference &n) {
  for (size_t i = 0; i != n.outputs.size() && i != n.inputs.size(); ++i)
    setLike(n, i, n.input(i).dataType, n.input(i));
}

static void inferAllGather(NodeInference &n) {
  int64_t axis = n.intAttribute("axis", 0);
  int64_t ranks = n.intAttribute("group_size", 1);
  const ValueInfo &x = n.input(0);
  setLike(n, 0, x.dataType, x);
  if (n.failed() || !n.hasOutput(0) || !x.isRanked() ||
      !normalizeAxis(n, axis, x.rank()))
    return;
  SymInt dim = mulSym(x.dims[axis], SymInt::constant(ranks));
  n.outputs[0].dims[axis] = toSize(dim);
}

/// TensorRT's DistCollective: only some of its operations keep the shape.
static void inferDistCollective(NodeInference &n) {
  StringRef operation = n.stringAttribute("collective_operation", "");
  if (operation == "all_reduce" || operation == "broadcast" ||
      operation == "reduce")
    return inferSame(n);
  inferRankOnly(n);
}

/// The norm, the new residual and the sum are like the input.
static void inferFused(NodeInference &n) {
  for (size_t i = 0; i != n.outputs.size(); ++i)
    setLike(n, i, n.input(0).dataType, n.input(0));
}

static void inferTokenLimit(NodeInference &n) {
  setTensor(n, 0, kInt64, llvm::ArrayRef<SymInt>());
}

const InferenceRule kRules[] = {
    {inferDistCollective, {"DistCollective"}},
    {inferAllReduce, {"NcclAllReduce"}},
    {inferAllReduce, {"AllReduce", "NcclAllReduce"}, "com.microsoft"},
    {inferAllGather, {"AllGather"}, "com.microsoft"},
    {inferAllReduce, {"AllReducePlugin"}, "trt_edgellm"},
    {inferFused,
     {"AllReduceRMSNorm", "AllReduceAddRMSNorm", "AllReduceRMSNormAddRMSNorm",
      "AllReduceBiasRMSNorm", "AllReduceBiasAddRMSNorm",
      "AllReduceBiasRMSNormAddRMSNorm"},
     "ai.tandem"},
    {inferTokenLimit, {"TokenLimit"}, "ai.tandem"},
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::collectiveRules() {
  return kRules;
}
