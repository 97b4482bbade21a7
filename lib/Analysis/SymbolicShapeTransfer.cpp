//===- SymbolicShapeTransfer.cpp - What ops do to shapes ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SymbolicShapeTransfer.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;

using Transfer = ShapeAnalysis::Transfer;

/// Counts `axis` from the front of `rank` dims; false if there is none such.
static bool normalizeAxis(int64_t &axis, int64_t rank) {
  if (axis < 0)
    axis += rank;
  return axis >= 0 && axis < rank;
}

OperandRange Transfer::getDependencies(Operation *op) {
  return op->getOperands();
}

bool Transfer::holdsElements(RankedTensorType type) {
  return type.getRank() <= 1 && type.hasStaticShape() &&
         type.getNumElements() <= 16 && type.getElementType().isInteger() &&
         type.getElementType().getIntOrFloatBitWidth() > 1;
}

const ShapeAnalysis::Info *Transfer::lookup(Value value) const {
  return analysis.infos.lookup(value);
}

std::optional<Transfer::Dims> Transfer::dimsOf(Value value) const {
  const Info *info = lookup(value);
  if (!info || !info->ranked)
    return std::nullopt;
  return Dims(info->dims.begin(), info->dims.end());
}

const Transfer::Elements *Transfer::elementsOf(Value value) const {
  const Info *info = lookup(value);
  return info && info->elements ? &*info->elements : nullptr;
}

/// The contents of an integer tensor, where all of them are constant.
std::optional<SmallVector<int64_t>> Transfer::constantsOf(Value value) const {
  const Elements *elements = elementsOf(value);
  if (!elements)
    return std::nullopt;
  SmallVector<int64_t> constants;
  for (const SymbolicDim &element : *elements) {
    SymbolicDim dim = analysis.canonicalize(element);
    if (!dim.isConstant())
      return std::nullopt;
    constants.push_back(dim.coefficient);
  }
  return constants;
}

/// Whether the element of a shape tensor is a size for certain, and so neither
/// -1 nor anything else with a meaning of its own.
bool Transfer::isSize(const SymbolicDim &dim) const {
  return dim.coefficient >= 0 && llvm::all_of(dim.atoms, [&](unsigned id) {
           return analysis.atomIsSize[id];
         });
}

std::optional<SymbolicDim>
Transfer::broadcast(const std::optional<SymbolicDim> &a,
                    const std::optional<SymbolicDim> &b) {
  if (!a || !b) {
    // A constant other than 1 decides alone.
    for (const auto &dim : {a, b})
      if (dim && dim->isConstant() && dim->coefficient != 1)
        return dim;
    return std::nullopt;
  }
  SymbolicDim x = analysis.canonicalize(*a), y = analysis.canonicalize(*b);
  if (x == y)
    return x;
  if (x.isConstant())
    return x.coefficient == 1 ? y : x;
  if (y.isConstant())
    return y.coefficient == 1 ? x : y;
  return std::nullopt;
}

std::optional<Transfer::Dims> Transfer::broadcastAll(ValueRange values) {
  std::optional<Dims> result;
  for (Value value : values) {
    if (isa<NoneType>(value.getType()))
      continue;
    std::optional<Dims> dims = dimsOf(value);
    if (!dims)
      return std::nullopt;
    if (!result) {
      result = std::move(dims);
      continue;
    }
    if (dims->size() > result->size())
      std::swap(dims, result);
    size_t offset = result->size() - dims->size();
    for (size_t i = 0, e = dims->size(); i != e; ++i)
      (*result)[offset + i] = broadcast((*result)[offset + i], (*dims)[i]);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Rules for dims
//===----------------------------------------------------------------------===//

std::optional<Transfer::Dims> Transfer::matMul(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> a = dimsOf(op->getOperand(0)),
                      b = dimsOf(op->getOperand(1));
  if (!a || !b || a->size() < 2 || b->size() < 2)
    return std::nullopt;
  std::optional<SymbolicDim> rows = (*a)[a->size() - 2], columns = b->back();
  a->truncate(a->size() - 2);
  b->truncate(b->size() - 2);
  if (a->size() < b->size())
    std::swap(a, b);
  size_t offset = a->size() - b->size();
  for (size_t i = 0, e = b->size(); i != e; ++i)
    (*a)[offset + i] = broadcast((*a)[offset + i], (*b)[i]);
  a->push_back(rows);
  a->push_back(columns);
  return a;
}

std::optional<Transfer::Dims> Transfer::gemm(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> a = dimsOf(op->getOperand(0)),
                      b = dimsOf(op->getOperand(1));
  if (!a || !b || a->size() != 2 || b->size() != 2)
    return std::nullopt;
  bool transA = OnnxNode(op).getInt("transA").value_or(0);
  bool transB = OnnxNode(op).getInt("transB").value_or(0);
  return Dims{(*a)[transA ? 1 : 0], (*b)[transB ? 0 : 1]};
}

/// The product of all dims, if all are known.
std::optional<SymbolicDim>
Transfer::multiplyAll(ArrayRef<std::optional<SymbolicDim>> dims) {
  SymbolicDim product = SymbolicDim::constant(1);
  for (const std::optional<SymbolicDim> &dim : dims) {
    std::optional<SymbolicDim> next;
    if (dim)
      next = analysis.multiply(product, analysis.canonicalize(*dim));
    if (!next)
      return std::nullopt;
    product = *next;
  }
  return product;
}

/// `dividend / divisor` where that leaves nothing over; both hold sizes only.
static std::optional<SymbolicDim> divide(const SymbolicDim &dividend,
                                         const SymbolicDim &divisor) {
  if (divisor.coefficient <= 0 || dividend.coefficient < 0 ||
      dividend.coefficient % divisor.coefficient != 0)
    return std::nullopt;
  SymbolicDim quotient =
      SymbolicDim::constant(dividend.coefficient / divisor.coefficient);
  const auto *next = divisor.atoms.begin();
  for (unsigned id : dividend.atoms) {
    if (next != divisor.atoms.end() && *next == id)
      ++next;
    else
      quotient.atoms.push_back(id);
  }
  if (next != divisor.atoms.end())
    return std::nullopt;
  return quotient;
}

std::optional<Transfer::Dims> Transfer::reshape(OpResult result) {
  Operation *op = result.getOwner();
  // Before opset 5 the shape was an attribute; such graphs aren't imported.
  if (op->getNumOperands() < 2)
    return std::nullopt;
  const Elements *shape = elementsOf(op->getOperand(1));
  std::optional<Dims> input = dimsOf(op->getOperand(0));
  if (!shape || !input)
    return std::nullopt;
  bool allowZero = OnnxNode(op).getInt("allowzero").value_or(0);
  std::optional<SymbolicDim> total = multiplyAll(*input);
  Dims dims;
  std::optional<size_t> inferred;
  for (auto [i, element] : llvm::enumerate(*shape)) {
    SymbolicDim dim = analysis.canonicalize(element);
    if (dim.isConstant() && dim.coefficient == -1) {
      inferred = i;
      dims.emplace_back();
    } else if (!isSize(dim)) {
      dims.emplace_back();
    } else if (allowZero || (dim.isConstant() && dim.coefficient != 0)) {
      dims.push_back(dim);
    } else if (dim.isConstant()) {
      dims.push_back(i < input->size() ? (*input)[i] : std::nullopt);
    } else {
      // A size that is 0 at run time asks for the input's dim instead. If the
      // input is empty whenever the size is 0, so is the result: then there
      // are no tokens, and nothing is done with the shape.
      bool vanishes = total && llvm::all_of(dim.atoms, [&](unsigned id) {
                        return llvm::is_contained(total->atoms, id);
                      });
      dims.push_back(vanishes ? std::optional(dim) : std::nullopt);
    }
  }
  if (!inferred || !total)
    return dims;
  // The inferred dim is the input's size divided by the other dims.
  SmallVector<std::optional<SymbolicDim>, 4> others(dims);
  others.erase(others.begin() + *inferred);
  if (std::optional<SymbolicDim> product = multiplyAll(others))
    dims[*inferred] = divide(*total, *product);
  return dims;
}

std::optional<Transfer::Dims> Transfer::expand(OpResult result) {
  Operation *op = result.getOwner();
  const Elements *shape = elementsOf(op->getOperand(1));
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!shape || !dims)
    return std::nullopt;
  Dims target;
  for (const SymbolicDim &element : *shape) {
    SymbolicDim dim = analysis.canonicalize(element);
    if (isSize(dim))
      target.push_back(dim);
    else
      target.emplace_back();
  }
  if (dims->size() > target.size())
    std::swap(*dims, target);
  size_t offset = target.size() - dims->size();
  for (size_t i = 0, e = dims->size(); i != e; ++i)
    target[offset + i] = broadcast(target[offset + i], (*dims)[i]);
  return target;
}

std::optional<Transfer::Dims> Transfer::flatten(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  int64_t rank = dims->size();
  int64_t axis = OnnxNode(op).getInt("axis").value_or(1);
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis > rank)
    return std::nullopt;
  ArrayRef<std::optional<SymbolicDim>> all(*dims);
  return Dims{multiplyAll(all.take_front(axis)),
              multiplyAll(all.drop_front(axis))};
}

std::optional<Transfer::Dims> Transfer::transpose(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> perm = OnnxNode(op).getInts("perm");
  if (!perm) {
    std::reverse(dims->begin(), dims->end());
    return dims;
  }
  Dims moved;
  for (int64_t i : *perm) {
    if (i < 0 || i >= static_cast<int64_t>(dims->size()))
      return std::nullopt;
    moved.push_back((*dims)[i]);
  }
  return moved;
}

std::optional<Transfer::Dims> Transfer::gather(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> data = dimsOf(op->getOperand(0)),
                      indices = dimsOf(op->getOperand(1));
  if (!data || !indices)
    return std::nullopt;
  int64_t rank = data->size();
  int64_t axis = OnnxNode(op).getInt("axis").value_or(0);
  if (!normalizeAxis(axis, rank))
    return std::nullopt;
  Dims dims(data->begin(), data->begin() + axis);
  dims.append(indices->begin(), indices->end());
  dims.append(data->begin() + axis + 1, data->end());
  return dims;
}

/// The axes of an op that takes them as an attribute or as its second operand,
/// counted from the front of `rank` dims. An absent list is empty.
std::optional<SmallVector<int64_t>> Transfer::axesOf(Operation *op,
                                                     int64_t rank) {
  SmallVector<int64_t> axes;
  if (std::optional<SmallVector<int64_t>> attr = OnnxNode(op).getInts("axes")) {
    axes = *attr;
  } else if (op->getNumOperands() > 1 &&
             !isa<NoneType>(op->getOperand(1).getType())) {
    std::optional<SmallVector<int64_t>> input = constantsOf(op->getOperand(1));
    if (!input)
      return std::nullopt;
    axes = *input;
  }
  for (int64_t &axis : axes)
    if (!normalizeAxis(axis, rank))
      return std::nullopt;
  return axes;
}

std::optional<Transfer::Dims> Transfer::squeeze(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = axesOf(op, dims->size());
  if (!axes || axes->empty())
    return std::nullopt;
  Dims kept;
  for (auto [i, dim] : llvm::enumerate(*dims))
    if (!llvm::is_contained(*axes, static_cast<int64_t>(i)))
      kept.push_back(dim);
  return kept;
}

std::optional<Transfer::Dims> Transfer::unsqueeze(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  int64_t rank = cast<RankedTensorType>(result.getType()).getRank();
  std::optional<SmallVector<int64_t>> axes = axesOf(op, rank);
  if (!dims || !axes ||
      dims->size() + axes->size() != static_cast<size_t>(rank))
    return std::nullopt;
  Dims expanded;
  auto *next = dims->begin();
  for (int64_t i = 0; i != rank; ++i) {
    if (llvm::is_contained(*axes, i))
      expanded.push_back(SymbolicDim::constant(1));
    else if (next != dims->end())
      expanded.push_back(*next++);
    else
      return std::nullopt;
  }
  return expanded;
}

std::optional<Transfer::Dims> Transfer::reduce(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = axesOf(op, dims->size());
  if (!axes || axes->empty())
    return std::nullopt;
  bool keep = OnnxNode(op).getInt("keepdims").value_or(1);
  Dims kept;
  for (auto [i, dim] : llvm::enumerate(*dims)) {
    if (!llvm::is_contained(*axes, static_cast<int64_t>(i)))
      kept.push_back(dim);
    else if (keep)
      kept.push_back(SymbolicDim::constant(1));
  }
  return kept;
}

std::optional<Transfer::Dims> Transfer::concat(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  std::optional<int64_t> axis = OnnxNode(op).getInt("axis");
  if (!dims || !axis)
    return std::nullopt;
  if (!normalizeAxis(*axis, dims->size()))
    return std::nullopt;
  if (op->getNumOperands() != 1)
    (*dims)[*axis] = std::nullopt;
  return dims;
}

std::optional<Transfer::Dims> Transfer::slice(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims || op->getNumOperands() < 3)
    return std::nullopt;
  // All axes in turn where they aren't given: nothing is known then.
  if (op->getNumOperands() < 4 || isa<NoneType>(op->getOperand(3).getType()))
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = constantsOf(op->getOperand(3));
  if (!axes)
    return std::nullopt;
  for (int64_t axis : *axes) {
    if (!normalizeAxis(axis, dims->size()))
      return std::nullopt;
    (*dims)[axis] = std::nullopt;
  }
  return dims;
}

std::optional<Transfer::Dims> Transfer::split(OpResult result) {
  Operation *op = result.getOwner();
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  int64_t axis = OnnxNode(op).getInt("axis").value_or(0);
  if (!normalizeAxis(axis, dims->size()))
    return std::nullopt;
  (*dims)[axis] = std::nullopt;
  return dims;
}

//===----------------------------------------------------------------------===//
// Rules for the contents of shape tensors
//===----------------------------------------------------------------------===//

std::optional<Transfer::Elements> Transfer::shapeOf(OpResult result) {
  Operation *op = result.getOwner();
  const Info *info = lookup(op->getOperand(0));
  if (!info || !info->ranked)
    return std::nullopt;
  int64_t rank = info->dims.size();
  auto clamp = [&](std::optional<int64_t> index, int64_t absent) {
    int64_t value = index.value_or(absent);
    if (value < 0)
      value += rank;
    return std::clamp<int64_t>(value, 0, rank);
  };
  int64_t start = clamp(OnnxNode(op).getInt("start"), 0);
  int64_t end = clamp(OnnxNode(op).getInt("end"), rank);
  if (end < start)
    return Elements();
  return Elements(info->dims.begin() + start, info->dims.begin() + end);
}

std::optional<Transfer::Elements> Transfer::gatherElements(OpResult result) {
  Operation *op = result.getOwner();
  const Elements *data = elementsOf(op->getOperand(0));
  std::optional<SmallVector<int64_t>> indices = constantsOf(op->getOperand(1));
  if (!data || !indices || OnnxNode(op).getInt("axis").value_or(0) != 0)
    return std::nullopt;
  Elements elements;
  for (int64_t index : *indices) {
    if (index < 0)
      index += data->size();
    if (index < 0 || index >= static_cast<int64_t>(data->size()))
      return std::nullopt;
    elements.push_back((*data)[index]);
  }
  return elements;
}

std::optional<Transfer::Elements> Transfer::concatElements(OpResult result) {
  Operation *op = result.getOwner();
  Elements elements;
  for (Value operand : op->getOperands()) {
    const Elements *part = elementsOf(operand);
    if (!part)
      return std::nullopt;
    elements.append(part->begin(), part->end());
  }
  return elements;
}

std::optional<Transfer::Elements> Transfer::sliceElements(OpResult result) {
  Operation *op = result.getOwner();
  if (op->getNumOperands() < 3)
    return std::nullopt;
  const Elements *data = elementsOf(op->getOperand(0));
  std::optional<SmallVector<int64_t>> starts = constantsOf(op->getOperand(1)),
                                      ends = constantsOf(op->getOperand(2));
  if (!data || !starts || !ends || starts->size() != 1 || ends->size() != 1)
    return std::nullopt;
  if (op->getNumOperands() > 4 && !isa<NoneType>(op->getOperand(4).getType())) {
    std::optional<SmallVector<int64_t>> steps = constantsOf(op->getOperand(4));
    if (!steps || steps->size() != 1 || steps->front() != 1)
      return std::nullopt;
  }
  int64_t size = data->size();
  auto clamp = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  int64_t start = clamp(starts->front()), end = clamp(ends->front());
  if (end < start)
    return Elements();
  return Elements(data->begin() + start, data->begin() + end);
}

std::optional<Transfer::Elements> Transfer::arithmetic(OpResult result) {
  Operation *op = result.getOwner();
  if (op->getNumOperands() != 2)
    return std::nullopt;
  StringRef type = OnnxNode(op).getOpType();
  const Elements *a = elementsOf(op->getOperand(0)),
                 *b = elementsOf(op->getOperand(1));
  if (!a || !b || a->empty() || b->empty() ||
      (a->size() != b->size() && a->size() != 1 && b->size() != 1))
    return std::nullopt;
  // Narrower types wrap.
  if (!getElementTypeOrSelf(op->getResult(0).getType()).isInteger(64))
    return std::nullopt;
  Elements values;
  for (size_t i = 0, e = std::max(a->size(), b->size()); i != e; ++i) {
    SymbolicDim x = analysis.canonicalize((*a)[a->size() == 1 ? 0 : i]);
    SymbolicDim y = analysis.canonicalize((*b)[b->size() == 1 ? 0 : i]);
    std::optional<SymbolicDim> value;
    int64_t constant;
    if (type == "Mul")
      value = analysis.multiply(x, y);
    else if (x.isConstant() && y.isConstant()) {
      if ((type == "Add" &&
           !llvm::AddOverflow(x.coefficient, y.coefficient, constant)) ||
          (type == "Sub" &&
           !llvm::SubOverflow(x.coefficient, y.coefficient, constant)))
        value = SymbolicDim::constant(constant);
      else if (type == "Div" && x.coefficient >= 0 && y.coefficient > 0)
        value = SymbolicDim::constant(x.coefficient / y.coefficient);
    }
    values.push_back(value ? *value : analysis.newAtom(/*isSize=*/false));
  }
  return values;
}

std::optional<Transfer::Elements> Transfer::constantElements(OpResult result) {
  if (!holdsElements(cast<RankedTensorType>(result.getType())))
    return std::nullopt;
  std::optional<SmallVector<int64_t>> constants = getConstantInts(result);
  if (!constants)
    return std::nullopt;
  Elements elements;
  for (int64_t constant : *constants)
    elements.push_back(SymbolicDim::constant(constant));
  return elements;
}

//===----------------------------------------------------------------------===//
// Rules that many ops share
//===----------------------------------------------------------------------===//

std::optional<Transfer::Dims> Transfer::firstDims(OpResult result) {
  if (result.getResultNumber() != 0)
    return std::nullopt;
  return dimsOf(result.getOwner()->getOperand(0));
}

/// Result i is like operand i.
std::optional<Transfer::Dims> Transfer::pairedDims(OpResult result) {
  if (result.getResultNumber() >= result.getOwner()->getNumOperands())
    return std::nullopt;
  return dimsOf(result.getOwner()->getOperand(result.getResultNumber()));
}

/// Results 0 and 3 are like the input; those in between are statistics.
std::optional<Transfer::Dims> Transfer::skipNorm(OpResult result) {
  if (result.getResultNumber() != 0 && result.getResultNumber() != 3)
    return std::nullopt;
  return dimsOf(result.getOwner()->getOperand(0));
}

std::optional<Transfer::Dims> Transfer::broadcastOperands(OpResult result) {
  return broadcastAll(result.getOwner()->getOperands());
}

std::optional<Transfer::Dims> Transfer::dimsFromElements(OpResult result) {
  const Elements *shape = elementsOf(result.getOwner()->getOperand(0));
  if (!shape)
    return std::nullopt;
  Dims dims;
  for (const SymbolicDim &element : *shape) {
    SymbolicDim dim = analysis.canonicalize(element);
    dims.push_back(isSize(dim) ? std::optional(dim) : std::nullopt);
  }
  return dims;
}

std::optional<Transfer::Elements> Transfer::firstElements(OpResult result) {
  const Elements *elements = elementsOf(result.getOwner()->getOperand(0));
  return elements ? std::optional(*elements) : std::nullopt;
}

/// Sizes fit in 32 bits; narrower types may not hold them, and cut constants
/// off.
std::optional<Transfer::Elements> Transfer::castElements(OpResult result) {
  unsigned width =
      getElementTypeOrSelf(result.getType()).getIntOrFloatBitWidth();
  const Elements *elements = elementsOf(result.getOwner()->getOperand(0));
  if (!elements || width < 32)
    return std::nullopt;
  for (const SymbolicDim &element : *elements)
    if (width < 64 && !llvm::isInt<31>(element.coefficient))
      return std::nullopt;
  return *elements;
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

/// What is known of an op of ONNX. Malformed ops are the importer's and the
/// verifier's business; here, those with fewer operands only teach nothing.
struct Transfer::Rule {
  DimsRule dims = nullptr;
  ElementsRule elements = nullptr;
  unsigned numOperands = 1;
};

const Transfer::Rule *Transfer::findRule(const OnnxNode &node) {
  using T = Transfer;
  static const auto rules = [] {
    llvm::StringMap<Rule> rules;
    auto add = [&](std::initializer_list<const char *> ops, Rule rule) {
      for (const char *op : ops)
        rules[op] = rule;
    };
    add({"Identity"}, {&T::firstDims, &T::firstElements});
    add({"Cast", "CastLike"}, {&T::firstDims, &T::castElements});
    add({"Relu",
         "Sigmoid",
         "Tanh",
         "Sqrt",
         "Reciprocal",
         "Neg",
         "Abs",
         "Exp",
         "Log",
         "Erf",
         "Softplus",
         "Gelu",
         "Softmax",
         "LogSoftmax",
         "Clip",
         "Not",
         "Cos",
         "Sin",
         "Floor",
         "Ceil",
         "Round",
         "Sign",
         "LayerNormalization",
         "RMSNormalization",
         "SimplifiedLayerNormalization",
         "CumSum",
         "ScatterElements",
         "ScatterND",
         "Dropout",
         "LeakyRelu",
         "Elu",
         "HardSigmoid"},
        {&T::firstDims});
    add({"SkipSimplifiedLayerNormalization"}, {&T::skipNorm});
    add({"AllReduce", "NcclAllReduce", "AllReducePlugin"}, {&T::pairedDims});
    add({"Add", "Sub", "Mul", "Div"}, {&T::broadcastOperands, &T::arithmetic});
    add({"Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "Greater",
         "LessOrEqual", "GreaterOrEqual", "Where", "Max", "Min", "Sum", "Mean",
         "PRelu"},
        {&T::broadcastOperands});
    add({"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
         "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
         "ReduceSumSquare"},
        {&T::reduce});
    add({"MatMul"}, {&T::matMul, nullptr, 2});
    add({"Gemm"}, {&T::gemm, nullptr, 2});
    add({"Reshape"}, {&T::reshape, &T::firstElements});
    add({"Expand"}, {&T::expand, nullptr, 2});
    add({"Flatten"}, {&T::flatten});
    add({"Transpose"}, {&T::transpose});
    add({"Gather"}, {&T::gather, &T::gatherElements, 2});
    add({"Squeeze"}, {&T::squeeze, &T::firstElements});
    add({"Unsqueeze"}, {&T::unsqueeze, &T::firstElements});
    add({"Concat"}, {&T::concat, &T::concatElements});
    add({"Slice"}, {&T::slice, &T::sliceElements});
    add({"Split"}, {&T::split});
    add({"Shape"}, {nullptr, &T::shapeOf});
    add({"Constant"}, {nullptr, &T::constantElements, 0});
    add({"ConstantOfShape"}, {&T::dimsFromElements});
    return rules;
  }();
  // Ops of other domains that mean what the rule says.
  if (!node.getDomain().empty() &&
      !node.is("SimplifiedLayerNormalization", "com.microsoft") &&
      !node.is("SkipSimplifiedLayerNormalization", "com.microsoft") &&
      !node.is("AllReduce", "com.microsoft") &&
      !node.is("NcclAllReduce", "com.microsoft") &&
      !node.is("AllReducePlugin", "trt_edgellm"))
    return nullptr;
  auto rule = rules.find(node.getOpType());
  return rule == rules.end() ? nullptr : &rule->second;
}

/// tensor.collapse_shape: each dim is the product of a group of dims.
std::optional<Transfer::Dims> Transfer::collapse(tensor::CollapseShapeOp op) {
  std::optional<Dims> from = dimsOf(op.getSrc());
  if (!from)
    return std::nullopt;
  Dims dims;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    SmallVector<std::optional<SymbolicDim>, 4> parts;
    for (int64_t i : group)
      parts.push_back((*from)[i]);
    dims.push_back(multiplyAll(parts));
  }
  return dims;
}

/// tensor.expand_shape: the one dim of a group that is not static is what the
/// others leave; of several, the op's operands say the sizes.
std::optional<Transfer::Dims> Transfer::expand(tensor::ExpandShapeOp op) {
  std::optional<Dims> from = dimsOf(op.getSrc());
  if (!from)
    return std::nullopt;
  RankedTensorType type = op.getResultType();
  Dims dims(type.getRank());
  SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
  for (auto [source, group] :
       llvm::zip_equal(*from, op.getReassociationIndices())) {
    SmallVector<int64_t, 4> dynamic;
    int64_t others = 1;
    bool overflows = false;
    for (int64_t i : group) {
      if (type.isDynamicDim(i))
        dynamic.push_back(i);
      else
        overflows |= llvm::MulOverflow(others, type.getDimSize(i), others);
    }
    if (dynamic.size() == 1 && source && !overflows)
      dims[dynamic.front()] =
          divide(analysis.canonicalize(*source), SymbolicDim::constant(others));
    for (int64_t i : dynamic) {
      auto size = dyn_cast<Value>(sizes[i]);
      const Elements *element = !dims[i] && size ? elementsOf(size) : nullptr;
      if (element && isSize(element->front()))
        dims[i] = element->front();
    }
  }
  return dims;
}

Transfer::Result Transfer::apply(OpResult result) {
  Operation *op = result.getOwner();
  Result out;
  if (OnnxNode node(op); node) {
    const Rule *rule = findRule(node);
    if (!rule || op->getNumOperands() < rule->numOperands)
      return out;
    if (rule->dims)
      out.dims = (this->*rule->dims)(result);
    if (rule->elements &&
        holdsElements(cast<RankedTensorType>(result.getType())))
      out.elements = (this->*rule->elements)(result);
    return out;
  }
  if (isa<AllReduceOp, AddOp, RMSNormOp, FusedAllReduceNormOp, tensor::CastOp>(
          op)) {
    out.dims = dimsOf(op->getOperand(0));
    return out;
  }
  if (auto collapseOp = dyn_cast<tensor::CollapseShapeOp>(op)) {
    out.dims = collapse(collapseOp);
    return out;
  }
  if (auto dimOp = dyn_cast<tensor::DimOp>(op)) {
    std::optional<Dims> dims = dimsOf(dimOp.getSource());
    std::optional<int64_t> index = dimOp.getConstantIndex();
    if (dims && index && *index >= 0 &&
        *index < static_cast<int64_t>(dims->size()) && (*dims)[*index])
      out.elements = Elements{*(*dims)[*index]};
    return out;
  }
  if (auto expandOp = dyn_cast<tensor::ExpandShapeOp>(op)) {
    out.dims = expand(expandOp);
    return out;
  }
  if (op->hasTrait<OpTrait::Elementwise>() &&
      op->hasTrait<OpTrait::SameOperandsAndResultType>() &&
      op->getNumOperands() > 0) {
    out.dims = dimsOf(op->getOperand(0));
    return out;
  }
  if (op->hasTrait<OpTrait::ConstantLike>())
    out.elements = constantElements(result);
  return out;
}
