//===- Products.cpp - What products, convolutions and attention do to shapes
//-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using llvm::Twine;
using ::tandem_onnx::TensorProto;

/// The shape of a numpy matmul.
static void matMulShape(NodeInference &n, const ValueInfo &a,
                        const ValueInfo &b) {
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

static void inferMatMul(NodeInference &n) {
  const ValueInfo &a = n.input(0), &b = n.input(1);
  if (a.dataType && b.dataType && a.dataType != b.dataType)
    return n.fail("operands have different element types, " +
                  dataTypeName(a.dataType) + " and " +
                  dataTypeName(b.dataType));
  setTensor(n, 0, a.dataType ? a.dataType : b.dataType);
  matMulShape(n, a, b);
}

static void inferMatMulInteger(NodeInference &n) {
  setTensor(n, 0, TensorProto::INT32);
  matMulShape(n, n.input(0), n.input(1));
}

static void inferQLinearMatMul(NodeInference &n) {
  setTensor(n, 0, n.input(7).dataType);
  matMulShape(n, n.input(0), n.input(3));
}

static void inferGemm(NodeInference &n) {
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
static void inferConv(NodeInference &n) {
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

static void inferPool(NodeInference &n) {
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

static void inferGlobalPool(NodeInference &n) {
  inferPool(n);
  if (n.hasOutput(0) && n.outputs[0].isRanked())
    for (SymInt &dim :
         llvm::MutableArrayRef<SymInt>(n.outputs[0].dims).drop_front(2))
      dim = SymInt::constant(1);
}

/// ai.onnx's Attention. Q is [batch, heads, length, size] or [batch, length,
/// hidden].
static void inferAttention(NodeInference &n) {
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

/// LinearAttention, CausalConvWithState: output like input 0, the state like
/// the past state.
static void inferWithState(NodeInference &n) {
  if (n.opType == "CausalConvWithState")
    inferSame(n);
  else
    inferRankOnly(n);
  setTensor(n, 1, n.input(3).dataType);
}

static void inferRecurrent(NodeInference &n) {
  setRank(n, 0, n.input(0).dataType, 4);
  setRank(n, 1, n.input(0).dataType, 3);
  setRank(n, 2, n.input(0).dataType, 3);
}

static void inferEinsum(NodeInference &n) { setTensor(n, 0, commonType(n)); }

static void inferGroupQueryAttention(NodeInference &n) {
  const ValueInfo &q = n.input(0);
  // Without a key, query, key and value are packed into one.
  if (n.hasInput(1))
    inferSame(n);
  else
    inferRankOnly(n);
  setRank(n, 1, n.input(3).dataType ? n.input(3).dataType : q.dataType, 4);
  setRank(n, 2, n.input(4).dataType ? n.input(4).dataType : q.dataType, 4);
}

static void inferMatMulNBits(NodeInference &n) {
  int64_t width = n.intAttribute("N", -1);
  const ValueInfo &a = n.input(0);
  setLike(n, 0, a.dataType, a);
  if (n.hasOutput(0) && a.isRanked() && a.rank() > 0)
    n.outputs[0].dims.back() = toSize(width);
}

const InferenceRule kRules[] = {
    {inferMatMul, {"MatMul"}},
    {inferMatMulInteger, {"MatMulInteger"}},
    {inferQLinearMatMul, {"QLinearMatMul"}},
    {inferGemm, {"Gemm"}},
    {inferConv, {"Conv"}},
    {inferPool, {"AveragePool", "LpPool", "MaxPool"}},
    {inferGlobalPool, {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"}},
    {inferAttention, {"Attention"}},
    {inferWithState, {"CausalConvWithState", "LinearAttention"}},
    {inferRecurrent, {"GRU", "LSTM", "RNN"}},
    {inferEinsum, {"Einsum"}},
    {inferGroupQueryAttention, {"GroupQueryAttention"}, "com.microsoft"},
    {inferMatMulNBits, {"MatMulNBits"}, "com.microsoft"},
};

ArrayRef<InferenceRule> mlir::tandem::onnx::productRules() { return kRules; }
