//===- Indexing.cpp - What ops that choose elements do to shapes ----------===//
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

static void inferGather(NodeInference &n) {
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

static void inferGatherElements(NodeInference &n) {
  setLike(n, 0, n.input(0).dataType, n.input(1));
}

static void inferGatherND(NodeInference &n) {
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

static void inferOneHot(NodeInference &n) {
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
      depth = toSize((*elements)[0]);
  dims.insert(dims.begin() + axis, depth);
  n.outputs[0].setDims(dims);
}

static void inferTopK(NodeInference &n) {
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
      dims[axis] = toSize((*k)[0]);
  setTensor(n, 0, x.dataType, dims);
  setTensor(n, 1, kInt64, dims);
}

static void inferNonZero(NodeInference &n) {
  setTensor(
      n, 0, kInt64,
      {n.input(0).isRanked() ? SymInt::constant(n.input(0).rank()) : SymInt(),
       SymInt()});
}

/// Output 0 holds some of the slices of input 0 along `axis` or, without one,
/// some of its elements.
static void setChosen(NodeInference &n, std::optional<int64_t> axis) {
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

static void inferCompress(NodeInference &n) {
  setChosen(n, n.optionalInt("axis"));
}

static void inferUnique(NodeInference &n) {
  setChosen(n, n.optionalInt("axis"));
  for (size_t i = 1; i != 4; ++i)
    setRank(n, i, kInt64, 1);
}

const InferenceRule kRules[] = {
    {inferGather, {"Gather"}},     {inferGatherElements, {"GatherElements"}},
    {inferGatherND, {"GatherND"}}, {inferOneHot, {"OneHot"}},
    {inferTopK, {"TopK"}},         {inferNonZero, {"NonZero"}},
    {inferCompress, {"Compress"}}, {inferUnique, {"Unique"}},
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::indexingRules() {
  return kRules;
}
