//===- Sequences.cpp - The types of sequences and optionals ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

using namespace mlir::tandem::onnx;

/// Sequences hold tensors only, so types never nest deeper with every node.
static void setSequence(NodeInference &n, size_t index, ValueInfo element) {
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

static void inferSplitToSequence(NodeInference &n) {
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

static void inferSequenceAt(NodeInference &n) {
  const ValueInfo &sequence = n.input(0);
  if (n.hasOutput(0) && sequence.kind == ValueInfo::Sequence &&
      sequence.element)
    n.outputs[0] = *sequence.element;
}

static void inferSequenceConstruct(NodeInference &n) {
  if (n.inputs.empty())
    return;
  ValueInfo element = n.input(0);
  for (size_t i = 1; i != n.inputs.size(); ++i)
    element = joinValues(element, n.input(i));
  setSequence(n, 0, std::move(element));
}

static void inferSequenceEmpty(NodeInference &n) {
  int64_t dataType = n.intAttribute("dtype", kFloat);
  if (dataType > 0 && dataType < kNumDataTypes)
    setSequence(n, 0, ValueInfo::tensor(static_cast<int32_t>(dataType)));
}

static void inferSequenceInsert(NodeInference &n) {
  const ValueInfo &sequence = n.input(0);
  if (sequence.kind == ValueInfo::Sequence && sequence.element)
    setSequence(n, 0, joinValues(*sequence.element, n.input(1)));
}

static void inferSequenceErase(NodeInference &n) {
  if (n.hasOutput(0) && n.input(0).kind == ValueInfo::Sequence)
    n.outputs[0] = n.input(0);
}

static void inferSequenceLength(NodeInference &n) {
  setTensor(n, 0, kInt64, {});
}

static void inferConcatFromSequence(NodeInference &n) {
  bool newAxis = n.intAttribute("new_axis", 0) != 0;
  const ValueInfo &sequence = n.input(0);
  if (sequence.kind != ValueInfo::Sequence || !sequence.element ||
      !sequence.element->isTensor())
    return;
  setTensor(n, 0, sequence.element->dataType);
  if (sequence.element->hasRank && n.hasOutput(0))
    n.outputs[0].setDims(SymInts(sequence.element->rank() + (newAxis ? 1 : 0)));
}

static void inferScalarBool(NodeInference &n) { setTensor(n, 0, kBool, {}); }

static void inferOptionalGetElement(NodeInference &n) {
  if (!n.hasOutput(0))
    return;
  const ValueInfo &x = n.input(0);
  if (x.kind == ValueInfo::Optional && x.element)
    n.outputs[0] = *x.element;
  else if (x.kind == ValueInfo::Tensor || x.kind == ValueInfo::Sequence)
    n.outputs[0] = x;
}

static void inferOptional(NodeInference &n) {
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

const InferenceRule kRules[] = {
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
};

llvm::ArrayRef<InferenceRule> mlir::tandem::onnx::sequenceRules() {
  return kRules;
}
