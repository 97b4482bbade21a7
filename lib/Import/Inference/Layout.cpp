//===- Layout.cpp - What ops that arrange elements anew do to shapes ------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::Twine;

static void inferShape(NodeInference &n) {
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

static void inferSize(NodeInference &n) {
  setTensor(n, 0, kInt64, {});
  if (n.input(0).isRanked())
    setElements(n, 0, {productOf(n.input(0).dims)});
}

static void inferConcat(NodeInference &n) {
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
static SymInt remainingDim(ArrayRef<SymInt> in, ArrayRef<SymInt> out,
                           size_t hole) {
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
    auto *match =
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

static void inferReshape(NodeInference &n) {
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

static void inferFlatten(NodeInference &n) {
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
static int64_t slicedSize(int64_t dim, int64_t &start, int64_t end,
                          int64_t step) {
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

static void inferSlice(NodeInference &n) {
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

static void inferSqueeze(NodeInference &n) {
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

static void inferUnsqueeze(NodeInference &n) {
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

static void inferTranspose(NodeInference &n) {
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

static void inferTile(NodeInference &n) {
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
      dims[i] = toSize(dim);
    }
  }
  n.outputs[0].setDims(dims);
}

static void inferPad(NodeInference &n) {
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
      dims[i] = toSize(dim);
    }
  n.outputs[0].setDims(dims);
}

/// Splits `dim` into `count` parts, all of one size but the last.
static SymInt partSize(SymInt dim, int64_t index, int64_t count) {
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

static void inferSplit(NodeInference &n) {
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
    dims[axis] = given ? (known ? toSize(sizes[i]) : SymInt())
                       : partSize(x.dims[axis], i, count);
    n.outputs[i].setDims(dims);
  }
}

const InferenceRule kRules[] = {
    {inferShape, {"Shape"}},
    {inferSize, {"Size"}},
    {inferConcat, {"Concat"}},
    {inferReshape, {"Reshape"}},
    {inferFlatten, {"Flatten"}},
    {inferSlice, {"Slice"}},
    {inferSqueeze, {"Squeeze"}},
    {inferUnsqueeze, {"Unsqueeze"}},
    {inferTranspose, {"Transpose"}},
    {inferTile, {"Tile"}},
    {inferPad, {"Pad"}},
    {inferSplit, {"Split"}},
};

ArrayRef<InferenceRule> mlir::tandem::onnx::layoutRules() { return kRules; }
