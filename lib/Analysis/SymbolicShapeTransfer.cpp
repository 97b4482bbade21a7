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
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

using Transfer = ShapeAnalysis::Transfer;

namespace {
/// What an op does to shapes, for those that share a rule.
enum class Family {
  Unknown,
  SameAsFirst,
  Broadcast,
  Reduce,
  MatMul,
  Gemm,
  Reshape,
  Expand,
  Flatten,
  Transpose,
  Gather,
  Squeeze,
  Unsqueeze,
  Concat,
  Slice,
  Split,
  Shape,
  Constant,
  ConstantOfShape
};
} // namespace

static Family getFamily(StringRef type) {
  if (type.starts_with("Reduce"))
    return Family::Reduce;
  return llvm::StringSwitch<Family>(type)
      .Cases({"Identity", "Cast", "CastLike", "Relu", "Sigmoid", "Tanh", "Sqrt",
              "Reciprocal", "Neg", "Abs", "Exp", "Log", "Erf"},
             Family::SameAsFirst)
      .Cases({"Softplus", "Gelu", "Softmax", "LogSoftmax", "Clip", "Not", "Cos",
              "Sin", "Floor", "Ceil", "Round", "Sign"},
             Family::SameAsFirst)
      .Cases({"LayerNormalization", "RMSNormalization",
              "SimplifiedLayerNormalization",
              "SkipSimplifiedLayerNormalization", "CumSum", "ScatterElements",
              "ScatterND", "Dropout", "LeakyRelu", "Elu", "HardSigmoid",
              "AllReduce", "NcclAllReduce", "AllReducePlugin"},
             Family::SameAsFirst)
      .Cases({"Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor",
              "Equal", "Less", "Greater"},
             Family::Broadcast)
      .Cases({"LessOrEqual", "GreaterOrEqual", "Where", "Max", "Min", "Sum",
              "Mean", "PRelu"},
             Family::Broadcast)
      .Case("MatMul", Family::MatMul)
      .Case("Gemm", Family::Gemm)
      .Case("Reshape", Family::Reshape)
      .Case("Expand", Family::Expand)
      .Case("Flatten", Family::Flatten)
      .Case("Transpose", Family::Transpose)
      .Case("Gather", Family::Gather)
      .Case("Squeeze", Family::Squeeze)
      .Case("Unsqueeze", Family::Unsqueeze)
      .Case("Concat", Family::Concat)
      .Case("Slice", Family::Slice)
      .Case("Split", Family::Split)
      .Case("Shape", Family::Shape)
      .Case("Constant", Family::Constant)
      .Case("ConstantOfShape", Family::ConstantOfShape)
      .Default(Family::Unknown);
}

/// Ops of other domains whose results have their first input's shape.
static bool keepsShape(const OnnxNode &node) {
  return node.is("SimplifiedLayerNormalization", "com.microsoft") ||
         node.is("SkipSimplifiedLayerNormalization", "com.microsoft") ||
         node.is("AllReduce", "com.microsoft") ||
         node.is("NcclAllReduce", "com.microsoft") ||
         node.is("AllReducePlugin", "trt_edgellm");
}

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

std::optional<Transfer::Dims> Transfer::matMul(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::gemm(Operation *op) {
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
  auto next = divisor.atoms.begin();
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

std::optional<Transfer::Dims> Transfer::reshape(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::expand(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::flatten(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::transpose(Operation *op) {
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> perm = OnnxNode(op).getInts("perm");
  if (!perm) {
    std::reverse(dims->begin(), dims->end());
    return dims;
  }
  Dims result;
  for (int64_t i : *perm) {
    if (i < 0 || i >= static_cast<int64_t>(dims->size()))
      return std::nullopt;
    result.push_back((*dims)[i]);
  }
  return result;
}

std::optional<Transfer::Dims> Transfer::gather(Operation *op) {
  std::optional<Dims> data = dimsOf(op->getOperand(0)),
                      indices = dimsOf(op->getOperand(1));
  if (!data || !indices)
    return std::nullopt;
  int64_t rank = data->size();
  int64_t axis = OnnxNode(op).getInt("axis").value_or(0);
  if (!normalizeAxis(axis, rank))
    return std::nullopt;
  Dims result(data->begin(), data->begin() + axis);
  result.append(indices->begin(), indices->end());
  result.append(data->begin() + axis + 1, data->end());
  return result;
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

std::optional<Transfer::Dims> Transfer::squeeze(Operation *op, StringRef) {
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = axesOf(op, dims->size());
  if (!axes || axes->empty())
    return std::nullopt;
  Dims result;
  for (auto [i, dim] : llvm::enumerate(*dims))
    if (!llvm::is_contained(*axes, static_cast<int64_t>(i)))
      result.push_back(dim);
  return result;
}

std::optional<Transfer::Dims> Transfer::unsqueeze(Operation *op,
                                                  OpResult result) {
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  int64_t rank = cast<RankedTensorType>(result.getType()).getRank();
  std::optional<SmallVector<int64_t>> axes = axesOf(op, rank);
  if (!dims || !axes ||
      dims->size() + axes->size() != static_cast<size_t>(rank))
    return std::nullopt;
  Dims expanded;
  auto next = dims->begin();
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

std::optional<Transfer::Dims> Transfer::reduce(Operation *op) {
  std::optional<Dims> dims = dimsOf(op->getOperand(0));
  if (!dims)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes = axesOf(op, dims->size());
  if (!axes || axes->empty())
    return std::nullopt;
  bool keep = OnnxNode(op).getInt("keepdims").value_or(1);
  Dims result;
  for (auto [i, dim] : llvm::enumerate(*dims)) {
    if (!llvm::is_contained(*axes, static_cast<int64_t>(i)))
      result.push_back(dim);
    else if (keep)
      result.push_back(SymbolicDim::constant(1));
  }
  return result;
}

std::optional<Transfer::Dims> Transfer::concat(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::slice(Operation *op) {
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

std::optional<Transfer::Dims> Transfer::split(Operation *op) {
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

std::optional<Transfer::Elements> Transfer::shapeOf(Operation *op) {
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

std::optional<Transfer::Elements> Transfer::gatherElements(Operation *op) {
  const Elements *data = elementsOf(op->getOperand(0));
  std::optional<SmallVector<int64_t>> indices = constantsOf(op->getOperand(1));
  if (!data || !indices || OnnxNode(op).getInt("axis").value_or(0) != 0)
    return std::nullopt;
  Elements result;
  for (int64_t index : *indices) {
    if (index < 0)
      index += data->size();
    if (index < 0 || index >= static_cast<int64_t>(data->size()))
      return std::nullopt;
    result.push_back((*data)[index]);
  }
  return result;
}

std::optional<Transfer::Elements> Transfer::concatElements(Operation *op) {
  Elements result;
  for (Value operand : op->getOperands()) {
    const Elements *part = elementsOf(operand);
    if (!part)
      return std::nullopt;
    result.append(part->begin(), part->end());
  }
  return result;
}

std::optional<Transfer::Elements> Transfer::sliceElements(Operation *op) {
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

std::optional<Transfer::Elements> Transfer::arithmetic(Operation *op,
                                                       StringRef type) {
  const Elements *a = elementsOf(op->getOperand(0)),
                 *b = elementsOf(op->getOperand(1));
  if (!a || !b || a->empty() || b->empty() ||
      (a->size() != b->size() && a->size() != 1 && b->size() != 1))
    return std::nullopt;
  // Narrower types wrap.
  if (!getElementTypeOrSelf(op->getResult(0).getType()).isInteger(64))
    return std::nullopt;
  Elements result;
  for (size_t i = 0, e = std::max(a->size(), b->size()); i != e; ++i) {
    SymbolicDim x = analysis.canonicalize((*a)[a->size() == 1 ? 0 : i]);
    SymbolicDim y = analysis.canonicalize((*b)[b->size() == 1 ? 0 : i]);
    std::optional<SymbolicDim> value;
    int64_t constant;
    if (type == "Mul")
      value = analysis.multiply(x, y);
    else if (x.isConstant() && y.isConstant()) {
      if (type == "Add" &&
          !llvm::AddOverflow(x.coefficient, y.coefficient, constant))
        value = SymbolicDim::constant(constant);
      else if (type == "Sub" &&
               !llvm::SubOverflow(x.coefficient, y.coefficient, constant))
        value = SymbolicDim::constant(constant);
      else if (type == "Div" && x.coefficient >= 0 && y.coefficient > 0)
        value = SymbolicDim::constant(x.coefficient / y.coefficient);
    }
    result.push_back(value ? *value : analysis.newAtom(/*isSize=*/false));
  }
  return result;
}

std::optional<Transfer::Elements> Transfer::constantElements(Operation *op,
                                                             OpResult result) {
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
// Dispatch
//===----------------------------------------------------------------------===//

Transfer::Result Transfer::applyOnnx(Operation *op, StringRef type,
                                     OpResult result) {
  Result out;
  Family family = getFamily(type);
  unsigned needed = 0;
  switch (family) {
  case Family::Unknown:
    return out;
  case Family::Constant:
    out.elements = constantElements(op, result);
    return out;
  case Family::MatMul:
  case Family::Gemm:
  case Family::Expand:
  case Family::Gather:
    needed = 2;
    break;
  default:
    needed = 1;
  }
  // Malformed ops are the importer's and the verifier's business; here they
  // only teach nothing.
  if (op->getNumOperands() < needed)
    return out;

  auto resultType = cast<RankedTensorType>(result.getType());
  bool wantsElements = holdsElements(resultType);
  auto passElements = [&] {
    if (wantsElements)
      if (const Elements *elements = elementsOf(op->getOperand(0)))
        out.elements = *elements;
  };
  switch (family) {
  case Family::Unknown:
  case Family::Constant:
    break;
  case Family::SameAsFirst:
    // Skip-norms return statistics of another shape in between.
    if (result.getResultNumber() == 0 || result.getResultNumber() == 3)
      out.dims = dimsOf(op->getOperand(0));
    // A narrower type may not hold a size.
    if (type == "Identity" || ((type == "Cast" || type == "CastLike") &&
                               resultType.getElementTypeBitWidth() >= 32))
      passElements();
    break;
  case Family::Broadcast:
    out.dims = broadcastAll(op->getOperands());
    if (wantsElements && op->getNumOperands() == 2)
      out.elements = arithmetic(op, type);
    break;
  case Family::Reduce:
    out.dims = reduce(op);
    break;
  case Family::MatMul:
    out.dims = matMul(op);
    break;
  case Family::Gemm:
    out.dims = gemm(op);
    break;
  case Family::Reshape:
    out.dims = reshape(op);
    passElements();
    break;
  case Family::Expand:
    out.dims = expand(op);
    break;
  case Family::Flatten:
    out.dims = flatten(op);
    break;
  case Family::Transpose:
    out.dims = transpose(op);
    break;
  case Family::Gather:
    out.dims = gather(op);
    if (wantsElements)
      out.elements = gatherElements(op);
    break;
  case Family::Squeeze:
    out.dims = squeeze(op, type);
    passElements();
    break;
  case Family::Unsqueeze:
    out.dims = unsqueeze(op, result);
    passElements();
    break;
  case Family::Concat:
    out.dims = concat(op);
    if (wantsElements)
      out.elements = concatElements(op);
    break;
  case Family::Slice:
    out.dims = slice(op);
    if (wantsElements)
      out.elements = sliceElements(op);
    break;
  case Family::Split:
    out.dims = split(op);
    break;
  case Family::Shape:
    out.elements = shapeOf(op);
    break;
  case Family::ConstantOfShape:
    if (const Elements *shape = elementsOf(op->getOperand(0))) {
      out.dims.emplace();
      for (const SymbolicDim &element : *shape) {
        SymbolicDim dim = analysis.canonicalize(element);
        out.dims->push_back(isSize(dim) ? std::optional(dim) : std::nullopt);
      }
    }
    break;
  }
  return out;
}

Transfer::Result Transfer::apply(OpResult result) {
  Operation *op = result.getOwner();
  Result out;
  if (isa<AllReduceOp, AddOp, RMSNormOp, FusedAllReduceNormOp, tensor::CastOp>(
          op)) {
    out.dims = dimsOf(op->getOperand(0));
    return out;
  }
  if (OnnxNode node(op); node && (node.getDomain().empty() || keepsShape(node)))
    return applyOnnx(op, node.getOpType(), result);
  if (op->hasTrait<OpTrait::Elementwise>() &&
      op->hasTrait<OpTrait::SameOperandsAndResultType>() &&
      op->getNumOperands() > 0) {
    out.dims = dimsOf(op->getOperand(0));
    return out;
  }
  if (op->hasTrait<OpTrait::ConstantLike>())
    out.elements = constantElements(op, result);
  return out;
}
