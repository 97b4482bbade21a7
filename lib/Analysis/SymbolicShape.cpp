//===- SymbolicShape.cpp - Proofs about tensor shapes ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/SymbolicShape.h"

#include "SymbolicShapeTransfer.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;

/// The text of `value`'s dim names, as "0:batch,1:seq"; empty where there is
/// none.
static StringRef getDimNames(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto names =
        result.getOwner()->getAttrOfType<ArrayAttr>("tandem.dim_params");
    if (!names || result.getResultNumber() >= names.size())
      return {};
    auto name = dyn_cast<StringAttr>(names[result.getResultNumber()]);
    return name ? name.getValue() : StringRef();
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast_if_present<FunctionOpInterface>(
      argument.getOwner()->getParentOp());
  if (!function || !argument.getOwner()->isEntryBlock())
    return {};
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    "onnx.dim_params");
  return name ? name.getValue() : StringRef();
}

/// Calls `callback` with each (dimension, name) pair of "0:batch,1:seq".
static void forEachDimName(StringRef names,
                           function_ref<void(unsigned, StringRef)> callback) {
  while (!names.empty()) {
    auto [field, rest] = names.split(',');
    auto [index, name] = field.split(':');
    unsigned dim;
    if (!index.trim().getAsInteger(10, dim) && !name.trim().empty())
      callback(dim, name.trim());
    names = rest;
  }
}

SymbolicDim ShapeAnalysis::newAtom(bool isSize) {
  definitions.emplace_back();
  atomIsSize.push_back(isSize);
  return SymbolicDim::atom(definitions.size() - 1);
}

/// The function, or other isolated op, whose names `value` shares.
static Operation *getNameScope(Value value) {
  Operation *op = value.getParentRegion()->getParentOp();
  while (op && !op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    op = op->getParentOp();
  return op;
}

/// Whether `value` is there whenever its function runs. What a type or a name
/// says of a value in a branch is only known to hold if that branch is taken.
static bool isAlwaysComputed(Value value) {
  Region *region = value.getParentRegion();
  Operation *parent = region->getParentOp();
  return parent && parent->hasTrait<OpTrait::IsIsolatedFromAbove>() &&
         value.getParentBlock() == &region->front();
}

SymbolicDim ShapeAnalysis::namedAtom(Operation *scope, StringRef name) {
  auto [it, isNew] = named[scope].try_emplace(name, 0);
  if (isNew)
    it->second = newAtom(/*isSize=*/true).atoms.front();
  return SymbolicDim::atom(it->second);
}

std::optional<SymbolicDim> ShapeAnalysis::multiply(const SymbolicDim &a,
                                                   const SymbolicDim &b) {
  SymbolicDim product;
  if (llvm::MulOverflow(a.coefficient, b.coefficient, product.coefficient))
    return std::nullopt;
  if (product.coefficient == 0)
    return SymbolicDim::constant(0);
  product.atoms.resize(a.atoms.size() + b.atoms.size());
  std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
             product.atoms.begin());
  return product;
}

SymbolicDim ShapeAnalysis::canonicalize(const SymbolicDim &dim) {
  if (llvm::none_of(dim.atoms, [&](unsigned id) { return definitions[id]; }))
    return dim;
  SymbolicDim result = SymbolicDim::constant(dim.coefficient);
  for (unsigned id : dim.atoms) {
    SymbolicDim factor = SymbolicDim::atom(id);
    if (definitions[id]) {
      // Keep the short way, so that long chains of names stay cheap.
      factor = canonicalize(*definitions[id]);
      definitions[id] = factor;
    }
    std::optional<SymbolicDim> product = multiply(result, factor);
    if (!product)
      return dim;
    result = std::move(*product);
  }
  return result;
}

bool ShapeAnalysis::equal(const SymbolicDim &a, const SymbolicDim &b) {
  return canonicalize(a) == canonicalize(b);
}

void ShapeAnalysis::unify(const SymbolicDim &a, const SymbolicDim &b) {
  SymbolicDim x = canonicalize(a), y = canonicalize(b);
  if (x == y)
    return;
  // The younger atom stands for the older size, so that no cycle can form.
  if (y.isAtom() && (!x.isAtom() || y.atoms[0] > x.atoms[0]))
    std::swap(x, y);
  if (!x.isAtom() || llvm::is_contained(y.atoms, x.atoms[0]))
    return;
  if (!llvm::all_of(y.atoms, [&](unsigned id) { return atomIsSize[id]; }))
    return;
  definitions[x.atoms[0]] = y;
}

const ShapeAnalysis::Info &ShapeAnalysis::ensure(Value root) {
  // A work list instead of recursion: graphs are tens of thousands deep.
  SmallVector<Value> stack{root};
  llvm::DenseSet<Value> entered;
  while (!stack.empty()) {
    Value value = stack.back();
    if (infos.contains(value)) {
      stack.pop_back();
      continue;
    }
    if (entered.insert(value).second) {
      // Unreachable code and graph regions have cycles: an operand that has
      // been entered but not worked out waits for this value.
      if (Operation *op = value.getDefiningOp())
        for (Value operand : Transfer::getDependencies(op))
          if (!infos.contains(operand) && !entered.contains(operand))
            stack.push_back(operand);
      continue;
    }
    compute(value);
    stack.pop_back();
  }
  return *infos.find(root)->second;
}

void ShapeAnalysis::compute(Value value) {
  Info info;
  if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
    Transfer::Result derived;
    if (auto result = dyn_cast<OpResult>(value))
      derived = Transfer(*this).apply(result);
    if (derived.dims &&
        derived.dims->size() != static_cast<size_t>(type.getRank()))
      derived.dims.reset();
    info.ranked = true;
    bool isAlways = isAlwaysComputed(value);
    for (int64_t i = 0, rank = type.getRank(); i != rank; ++i) {
      if (!type.isDynamicDim(i)) {
        info.dims.push_back(SymbolicDim::constant(type.getDimSize(i)));
        if (isAlways && derived.dims && (*derived.dims)[i])
          unify(*(*derived.dims)[i], info.dims.back());
      } else if (derived.dims && (*derived.dims)[i]) {
        info.dims.push_back(*(*derived.dims)[i]);
      } else {
        info.dims.push_back(newAtom(/*isSize=*/true));
      }
    }
    Operation *scope = getNameScope(value);
    forEachDimName(getDimNames(value), [&](unsigned dim, StringRef name) {
      if (dim >= info.dims.size())
        return;
      if (isAlways)
        unify(info.dims[dim], namedAtom(scope, name));
      else if (type.isDynamicDim(dim) &&
               !(derived.dims && (*derived.dims)[dim]))
        info.dims[dim] = namedAtom(scope, name);
    });
    if (Transfer::holdsElements(type)) {
      int64_t count = type.getNumElements();
      info.elements = std::move(derived.elements);
      if (info.elements && info.elements->size() != static_cast<size_t>(count))
        info.elements.reset();
      if (!info.elements) {
        info.elements.emplace();
        for (int64_t i = 0; i != count; ++i)
          info.elements->push_back(newAtom(/*isSize=*/false));
      }
    }
  }
  // A size as a scalar is one element.
  if (value.getDefiningOp<tensor::DimOp>())
    info.elements = Transfer(*this).apply(cast<OpResult>(value)).elements;
  infos.try_emplace(value, &storage.emplace_back(std::move(info)));
}

std::optional<SmallVector<SymbolicDim>> ShapeAnalysis::getShape(Value value) {
  const Info &info = ensure(value);
  if (!info.ranked)
    return std::nullopt;
  SmallVector<SymbolicDim> shape;
  for (const SymbolicDim &dim : info.dims)
    shape.push_back(canonicalize(dim));
  return shape;
}

std::optional<SymbolicDim>
ShapeAnalysis::multiplyLeading(ArrayRef<std::optional<SymbolicDim>> dims) {
  if (dims.empty())
    return std::nullopt;
  SymbolicDim tokens = SymbolicDim::constant(1);
  for (const std::optional<SymbolicDim> &dim : dims.drop_back()) {
    std::optional<SymbolicDim> product;
    if (dim)
      product = multiply(tokens, *dim);
    if (!product)
      return std::nullopt;
    tokens = std::move(*product);
  }
  return tokens;
}

std::optional<SymbolicDim> ShapeAnalysis::getTokenCount(Value value) {
  std::optional<SmallVector<SymbolicDim>> shape = getShape(value);
  if (!shape)
    return std::nullopt;
  return multiplyLeading(
      SmallVector<std::optional<SymbolicDim>, 4>(shape->begin(), shape->end()));
}

std::optional<SymbolicDim> ShapeAnalysis::getDeclaredTokenCount(Value value) {
  return multiplyLeading(getDeclaredDims(value));
}

SmallVector<std::optional<SymbolicDim>, 4>
ShapeAnalysis::getDeclaredDims(Value value) {
  SmallVector<std::optional<SymbolicDim>, 4> dims;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return dims;
  for (int64_t size : type.getShape())
    dims.push_back(ShapedType::isDynamic(size)
                       ? std::nullopt
                       : std::optional(SymbolicDim::constant(size)));
  Operation *scope = getNameScope(value);
  forEachDimName(getDimNames(value), [&](unsigned dim, StringRef name) {
    if (dim < dims.size() && !dims[dim])
      dims[dim] = canonicalize(namedAtom(scope, name));
  });
  return dims;
}

bool ShapeAnalysis::provablyEqualDims(Value a, unsigned i, Value b,
                                      unsigned j) {
  std::optional<SmallVector<SymbolicDim>> x = getShape(a), y = getShape(b);
  return x && y && i < x->size() && j < y->size() && equal((*x)[i], (*y)[j]);
}

bool ShapeAnalysis::provablyEqualShapes(Value a, Value b) {
  auto x = dyn_cast<RankedTensorType>(a.getType());
  auto y = dyn_cast<RankedTensorType>(b.getType());
  if (!x || !y || x.getRank() != y.getRank())
    return false;
  if (x.hasStaticShape() && y.hasStaticShape())
    return x.getShape() == y.getShape();
  // The names that the source gives settle nearly all cases at no cost.
  SmallVector<std::optional<SymbolicDim>, 4> declared = getDeclaredDims(a);
  if (llvm::all_of(declared, [](const auto &dim) { return dim.has_value(); }) &&
      declared == getDeclaredDims(b))
    return true;
  const Info &left = ensure(a), &right = ensure(b);
  for (auto [p, q] : llvm::zip_equal(left.dims, right.dims))
    if (!equal(p, q))
      return false;
  return true;
}
