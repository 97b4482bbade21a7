//===- Shapes.cpp - Nodes that move elements to tensor ops ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

static Value compare(NodeLowering &lowering, arith::CmpIPredicate predicate,
                     Value a, Value b) {
  return arith::CmpIOp::create(lowering.builder, lowering.loc, predicate, a, b);
}

static Value select(NodeLowering &lowering, Value condition, Value a, Value b) {
  return arith::SelectOp::create(lowering.builder, lowering.loc, condition, a,
                                 b);
}

static Value toIndex(NodeLowering &lowering, Value integer) {
  return lowering.builder.createOrFold<arith::IndexCastOp>(
      lowering.loc, lowering.builder.getIndexType(), integer);
}

/// `size` as i64 if it is a constant, or the value of an i64 constant.
static std::optional<int64_t> getConstant(OpFoldResult value) {
  return getConstantIntValue(value);
}

/// `input` with the elements in another shape, whose sizes multiply to the same
/// number: by way of one dimension, because upstream's lowering has no
/// `tensor.reshape`.
static Value reshape(NodeLowering &lowering, Value input, const Sizes &sizes) {
  OpBuilder &b = lowering.builder;
  Location loc = lowering.loc;
  RankedTensorType from = typeOf(input);
  Type elementType = from.getElementType();
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes)
    shape.push_back(getConstant(size).value_or(ShapedType::kDynamic));
  auto to = RankedTensorType::get(shape, elementType);
  if (to == from && to.hasStaticShape())
    return input;
  SmallVector<Value> extents;
  for (OpFoldResult size : sizes)
    extents.push_back(lowering.asValue(size));

  auto all = [](int64_t rank) {
    SmallVector<ReassociationIndices> groups(1);
    for (int64_t i = 0; i < rank; ++i)
      groups.front().push_back(i);
    return groups;
  };
  auto flatType = [&](RankedTensorType type) {
    int64_t count =
        type.hasStaticShape() ? type.getNumElements() : ShapedType::kDynamic;
    return RankedTensorType::get(count, elementType);
  };
  Value flat = input;
  if (from.getRank() == 0)
    flat = tensor::ExpandShapeOp::create(b, loc, flatType(from), input,
                                         ArrayRef<ReassociationIndices>{});
  else if (from.getRank() > 1)
    flat = tensor::CollapseShapeOp::create(b, loc, flatType(from), input,
                                           all(from.getRank()));
  // One side may know more than the other.
  if (flat.getType() != flatType(to))
    flat = tensor::CastOp::create(b, loc, flatType(to), flat);
  if (to.getRank() == 0)
    return tensor::CollapseShapeOp::create(b, loc, to, flat,
                                           ArrayRef<ReassociationIndices>{});
  if (to.getRank() == 1)
    return flat;
  if (to.getNumDynamicDims() > 1)
    // Upstream can't lower a view with several unknown sizes: a copy.
    return lowering.elementwise(
        {}, sizes, elementType,
        [&](OpBuilder &body, Location bodyLoc, ValueRange) -> Value {
          Value index = linalg::IndexOp::create(body, bodyLoc, 0);
          for (int64_t i = 1; i < to.getRank(); ++i)
            index = arith::AddIOp::create(
                body, bodyLoc,
                arith::MulIOp::create(body, bodyLoc, index, extents[i]),
                linalg::IndexOp::create(body, bodyLoc, i));
          return tensor::ExtractOp::create(body, bodyLoc, flat, index);
        });
  return tensor::ExpandShapeOp::create(b, loc, to, flat, all(to.getRank()),
                                       sizes);
}

//===----------------------------------------------------------------------===//
// Reshape, Flatten, Squeeze, Unsqueeze
//===----------------------------------------------------------------------===//

static LogicalResult lowerReshape(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  OpBuilder &b = lowering.builder;
  int64_t rank = typeOf(input).getRank();
  bool allowZero = lowering.node.getInt("allowzero").value_or(0) != 0;

  // The entries of the shape, each a constant or an i64 that is computed.
  SmallVector<OpFoldResult> entries;
  if (auto ints = lowering.node.getInts("shape")) { // before opset 5
    for (int64_t value : *ints)
      entries.push_back(b.getI64IntegerAttr(value));
  } else {
    Value shape = lowering.getTensor(1);
    if (!shape)
      return failure();
    if (auto constant = getConstantInts(lowering.node.getInput(1))) {
      for (int64_t value : *constant)
        entries.push_back(b.getI64IntegerAttr(value));
    } else {
      RankedTensorType type = typeOf(shape);
      if (type.getRank() != 1 || type.isDynamicDim(0) ||
          !isa<IntegerType>(type.getElementType()))
        return lowering.error("has a shape whose length is not known");
      for (int64_t i = 0; i < type.getDimSize(0); ++i)
        entries.push_back(lowering.extractInt(shape, i));
    }
  }

  // The sizes without the one that follows from the others. An entry that is
  // computed is -1, 0 or a size, who knows.
  Sizes sizes;
  OpFoldResult others = b.getIndexAttr(1), total = b.getIndexAttr(1);
  for (int64_t i = 0; i < rank; ++i)
    total = lowering.multiply(total, lowering.getSize(input, i));
  std::optional<unsigned> inferred;
  SmallVector<std::pair<unsigned, Value>> maybeInferred;
  for (auto [i, entry] : llvm::enumerate(entries)) {
    std::optional<int64_t> constant = getConstant(entry);
    if (constant && *constant == -1) {
      if (inferred)
        return lowering.error("has a shape with more than one -1");
      inferred = i;
      sizes.push_back(b.getIndexAttr(1));
      continue;
    }
    if (constant && *constant == 0 && !allowZero) {
      if (static_cast<int64_t>(i) >= rank)
        return lowering.error("copies size #" + Twine(i) +
                              " of a tensor of rank " + Twine(rank));
      sizes.push_back(lowering.getSize(input, i));
    } else if (constant) {
      if (*constant < 0)
        return lowering.error("has the size " + Twine(*constant));
      sizes.push_back(b.getIndexAttr(*constant));
    } else {
      Value size = toIndex(lowering, cast<Value>(entry));
      Value zero = lowering.constantIndex(0);
      // A size that comes from a Shape is one for certain.
      bool isSize = size.getDefiningOp<tensor::DimOp>() ||
                    cast<Value>(entry).getDefiningOp<arith::IndexCastOp>();
      if (!allowZero && static_cast<int64_t>(i) < rank)
        size = select(lowering,
                      compare(lowering, arith::CmpIPredicate::eq, size, zero),
                      lowering.asValue(lowering.getSize(input, i)), size);
      if (!isSize) {
        Value isNegative =
            compare(lowering, arith::CmpIPredicate::slt, size, zero);
        maybeInferred.push_back({static_cast<unsigned>(i), isNegative});
        size = select(lowering, isNegative, lowering.constantIndex(1), size);
      }
      sizes.push_back(size);
    }
    others = lowering.multiply(others, sizes.back());
  }

  auto infer = [&]() -> OpFoldResult {
    auto x = getConstant(total), y = getConstant(others);
    if (x && y)
      return b.getIndexAttr(*y == 0 ? 0 : *x / *y);
    Value divisor = lowering.asValue(others);
    Value zero = lowering.constantIndex(0);
    Value isZero = compare(lowering, arith::CmpIPredicate::eq, divisor, zero);
    divisor = select(lowering, isZero, lowering.constantIndex(1), divisor);
    return arith::DivSIOp::create(b, lowering.loc, lowering.asValue(total),
                                  divisor)
        .getResult();
  };
  if (inferred) {
    // What the declaration knows also holds where there are no elements, and
    // nothing follows from their number.
    RankedTensorType declared = lowering.getResultType();
    if (declared &&
        declared.getRank() == static_cast<int64_t>(entries.size()) &&
        !declared.isDynamicDim(*inferred))
      sizes[*inferred] = b.getIndexAttr(declared.getDimSize(*inferred));
    else
      sizes[*inferred] = infer();
    others = lowering.multiply(others, sizes[*inferred]);
  } else if (!maybeInferred.empty()) {
    Value value = lowering.asValue(infer());
    for (auto [i, isNegative] : maybeInferred) {
      sizes[i] =
          select(lowering, isNegative, value, lowering.asValue(sizes[i]));
      others = lowering.multiply(
          others, OpFoldResult(select(lowering, isNegative, value,
                                      lowering.constantIndex(1))));
    }
  }
  StringRef message = "reshapes a tensor to another number of elements";
  if (failed(lowering.checkEqual(others, total, message)))
    return failure();
  if (!maybeInferred.empty()) {
    // Sizes that come from anywhere may wrap around to the right product.
    auto toFloat = [&](OpFoldResult size) -> Value {
      Value integer = arith::IndexCastOp::create(
          b, lowering.loc, b.getI64Type(), lowering.asValue(size));
      return arith::SIToFPOp::create(b, lowering.loc, b.getF64Type(), integer);
    };
    Value product = toFloat(b.getIndexAttr(1));
    for (OpFoldResult size : sizes)
      product = arith::MulFOp::create(b, lowering.loc, product, toFloat(size));
    Value bound = arith::MulFOp::create(b, lowering.loc, toFloat(total),
                                        toFloat(b.getIndexAttr(2)));
    lowering.check(arith::CmpFOp::create(b, lowering.loc,
                                         arith::CmpFPredicate::OLE, product,
                                         bound),
                   message);
  }
  results.push_back(reshape(lowering, input, sizes));
  return success();
}

static LogicalResult lowerFlatten(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  int64_t rank = typeOf(input).getRank();
  int64_t axis = lowering.node.getInt("axis").value_or(1);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank)
    return lowering.error("has an axis that its input has not");
  Sizes sizes(2, lowering.builder.getIndexAttr(1));
  for (int64_t i = 0; i < rank; ++i)
    sizes[i >= axis] =
        lowering.multiply(sizes[i >= axis], lowering.getSize(input, i));
  results.push_back(reshape(lowering, input, sizes));
  return success();
}

static LogicalResult lowerSqueeze(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  RankedTensorType type = typeOf(input);
  FailureOr<std::optional<SmallVector<int64_t>>> given =
      lowering.getIntsFromAttrOrInput("axes", 1);
  if (failed(given))
    return failure();
  FailureOr<SmallVector<int64_t>> axes = lowering.normalizeAxes(
      given->value_or(SmallVector<int64_t>()), type.getRank());
  if (failed(axes))
    return failure();
  if (!*given) {
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (type.isDynamicDim(i))
        return lowering.error("drops dims by their sizes, which are not known; "
                              "it needs axes");
      if (type.getDimSize(i) == 1)
        axes->push_back(i);
    }
  }
  Sizes sizes;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    OpFoldResult size = lowering.getSize(input, i);
    if (!llvm::is_contained(*axes, i))
      sizes.push_back(size);
    else if (failed(lowering.checkEqual(size, lowering.builder.getIndexAttr(1),
                                        "drops a dim whose size is not 1")))
      return failure();
  }
  results.push_back(reshape(lowering, input, sizes));
  return success();
}

static LogicalResult lowerUnsqueeze(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  FailureOr<std::optional<SmallVector<int64_t>>> given =
      lowering.getIntsFromAttrOrInput("axes", 1);
  if (failed(given))
    return failure();
  if (!*given)
    return lowering.error("has no axes");
  int64_t rank = typeOf(input).getRank() + (*given)->size();
  FailureOr<SmallVector<int64_t>> axes = lowering.normalizeAxes(**given, rank);
  if (failed(axes))
    return failure();
  Sizes sizes;
  int64_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (llvm::is_contained(*axes, i))
      sizes.push_back(lowering.builder.getIndexAttr(1));
    else
      sizes.push_back(lowering.getSize(input, next++));
  }
  results.push_back(reshape(lowering, input, sizes));
  return success();
}

//===----------------------------------------------------------------------===//
// Transpose, Split, Concat, Slice, Gather, Expand
//===----------------------------------------------------------------------===//

static LogicalResult lowerTranspose(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  int64_t rank = typeOf(input).getRank();
  SmallVector<int64_t> permutation;
  if (auto given = lowering.node.getInts("perm"))
    permutation = *given;
  else
    for (int64_t i = rank; i > 0; --i)
      permutation.push_back(i - 1);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, rank)))
    return lowering.error("has a perm that is no permutation of its dims");
  // Upstream's transpose takes no scalars.
  results.push_back(rank == 0 ? input : lowering.transpose(input, permutation));
  return success();
}

/// `size` elements of dimension `axis` from `offset` on, each `step`th.
static Value slice(NodeLowering &lowering, Value input, int64_t axis,
                   OpFoldResult offset, OpFoldResult size, int64_t step = 1) {
  OpBuilder &b = lowering.builder;
  int64_t rank = typeOf(input).getRank();
  Sizes offsets(rank, b.getIndexAttr(0)), steps(rank, b.getIndexAttr(1));
  Sizes sizes = lowering.getSizes(input);
  offsets[axis] = offset;
  sizes[axis] = size;
  steps[axis] = b.getIndexAttr(step);
  return tensor::ExtractSliceOp::create(b, lowering.loc, input, offsets, sizes,
                                        steps);
}

static LogicalResult lowerSplit(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  OpBuilder &b = lowering.builder;
  FailureOr<int64_t> axis = lowering.normalizeAxis(
      lowering.node.getInt("axis").value_or(0), typeOf(input).getRank());
  if (failed(axis))
    return failure();
  OpFoldResult size = lowering.getSize(input, *axis);
  unsigned count = lowering.node.getOperation()->getNumResults();
  FailureOr<std::optional<SmallVector<int64_t>>> given =
      lowering.getIntsFromAttrOrInput("split", 1);
  if (failed(given))
    return failure();

  Sizes parts;
  if (*given) {
    int64_t sum = 0;
    for (int64_t part : **given) {
      if (part < 0 || llvm::AddOverflow(sum, part, sum))
        return lowering.error("has a part of size " + Twine(part));
      parts.push_back(b.getIndexAttr(part));
    }
    if (parts.size() != count)
      return lowering.error("has " + Twine(count) + " outputs and " +
                            Twine(parts.size()) + " parts");
    if (failed(lowering.checkEqual(size, b.getIndexAttr(sum),
                                   "has parts that don't add up to its size")))
      return failure();
  } else {
    // Equal parts of ceil(size / count), the last one what is left.
    std::optional<int64_t> constant = getConstant(size);
    if (constant) {
      int64_t part = (*constant + count - 1) / static_cast<int64_t>(count);
      for (unsigned i = 0; i < count; ++i)
        parts.push_back(
            b.getIndexAttr(std::clamp<int64_t>(*constant - part * i, 0, part)));
    } else {
      Value total = cast<Value>(size), zero = lowering.constantIndex(0);
      Value part = arith::CeilDivUIOp::create(b, lowering.loc, total,
                                              lowering.constantIndex(count));
      for (unsigned i = 0; i < count; ++i) {
        Value before = arith::MulIOp::create(b, lowering.loc, part,
                                             lowering.constantIndex(i));
        Value left = arith::SubIOp::create(b, lowering.loc, total, before);
        left = arith::MaxSIOp::create(b, lowering.loc, left, zero);
        parts.push_back(
            arith::MinSIOp::create(b, lowering.loc, left, part).getResult());
      }
    }
  }
  OpFoldResult offset = b.getIndexAttr(0);
  for (OpFoldResult part : parts) {
    results.push_back(slice(lowering, input, *axis, offset, part));
    auto x = getConstant(offset), y = getConstant(part);
    if (x && y)
      offset = b.getIndexAttr(*x + *y);
    else
      offset = arith::AddIOp::create(b, lowering.loc, lowering.asValue(offset),
                                     lowering.asValue(part))
                   .getResult();
  }
  return success();
}

static LogicalResult lowerConcat(NodeLowering &lowering, Results &results) {
  FailureOr<SmallVector<Value>> inputs = lowering.getTensors();
  if (failed(inputs))
    return failure();
  OpBuilder &b = lowering.builder;
  RankedTensorType type = typeOf(inputs->front());
  std::optional<int64_t> given = lowering.node.getInt("axis");
  if (!given)
    return lowering.error("has no axis");
  FailureOr<int64_t> axis = lowering.normalizeAxis(*given, type.getRank());
  if (failed(axis))
    return failure();
  for (Value input : *inputs)
    if (typeOf(input).getRank() != type.getRank() ||
        typeOf(input).getElementType() != type.getElementType())
      return lowering.error("has inputs of several ranks or element types");

  // Short lists, as shapes are made of, stay lists of scalars.
  int64_t total = 0;
  bool isShort = type.getRank() == 1 && isa<IntegerType>(type.getElementType());
  for (Value input : *inputs) {
    isShort = isShort && !typeOf(input).isDynamicDim(0);
    total += isShort ? typeOf(input).getDimSize(0) : 0;
  }
  if (isShort && total <= 64) {
    SmallVector<Value> elements;
    for (Value input : *inputs)
      for (int64_t i = 0; i < typeOf(input).getDimSize(0); ++i)
        elements.push_back(convertScalar(b, lowering.loc,
                                         lowering.extractInt(input, i),
                                         type.getElementType()));
    results.push_back(tensor::FromElementsOp::create(
        b, lowering.loc, RankedTensorType::get(total, type.getElementType()),
        elements));
    return success();
  }

  Sizes sizes = lowering.getSizes(inputs->front());
  OpFoldResult length = b.getIndexAttr(0);
  SmallVector<OpFoldResult> offsets;
  for (Value input : *inputs) {
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != *axis &&
          failed(lowering.checkEqual(sizes[i], lowering.getSize(input, i),
                                     "has inputs whose other sizes differ")))
        return failure();
    offsets.push_back(length);
    OpFoldResult own = lowering.getSize(input, *axis);
    auto x = getConstant(length), y = getConstant(own);
    if (x && y)
      length = b.getIndexAttr(*x + *y);
    else
      length = arith::AddIOp::create(b, lowering.loc, lowering.asValue(length),
                                     lowering.asValue(own))
                   .getResult();
  }
  sizes[*axis] = length;
  Value result = lowering.makeEmpty(sizes, type.getElementType());
  for (auto [input, offset] : llvm::zip_equal(*inputs, offsets)) {
    Sizes begin(type.getRank(), b.getIndexAttr(0));
    Sizes steps(type.getRank(), b.getIndexAttr(1));
    Sizes own = sizes;
    begin[*axis] = offset;
    own[*axis] = lowering.getSize(input, *axis);
    // A size that only one of the two knows: as the slice has it.
    SmallVector<int64_t> shape;
    for (OpFoldResult size : own)
      shape.push_back(getConstant(size).value_or(ShapedType::kDynamic));
    Value part = tensor::CastOp::create(
        b, lowering.loc, RankedTensorType::get(shape, type.getElementType()),
        input);
    result = tensor::InsertSliceOp::create(b, lowering.loc, part, result, begin,
                                           own, steps);
  }
  results.push_back(result);
  return success();
}

/// Slice with constant axes and positive constant steps; starts and ends may be
/// computed.
static LogicalResult lowerSlice(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  OpBuilder &b = lowering.builder;
  Location loc = lowering.loc;
  int64_t rank = typeOf(input).getRank();
  auto getEntries =
      [&](StringRef name,
          unsigned index) -> FailureOr<SmallVector<OpFoldResult>> {
    SmallVector<OpFoldResult> entries;
    std::optional<SmallVector<int64_t>> ints = lowering.node.getInts(name);
    if (!ints)
      ints = getConstantInts(lowering.node.getInput(index));
    if (ints) {
      for (int64_t value : *ints)
        entries.push_back(b.getI64IntegerAttr(value));
      return entries;
    }
    Value tensor = lowering.getTensor(index);
    if (!tensor)
      return failure();
    RankedTensorType type = typeOf(tensor);
    if (type.getRank() != 1 || type.isDynamicDim(0) ||
        !isa<IntegerType>(type.getElementType()))
      return lowering.error("has " + name + " whose number is not known");
    for (int64_t i = 0; i < type.getDimSize(0); ++i)
      entries.push_back(lowering.extractInt(tensor, i));
    return entries;
  };
  auto starts = getEntries("starts", 1);
  if (failed(starts))
    return failure();
  auto ends = getEntries("ends", 2);
  if (failed(ends))
    return failure();
  auto givenAxes = lowering.getIntsFromAttrOrInput("axes", 3);
  if (failed(givenAxes))
    return failure();
  FailureOr<SmallVector<int64_t>> axes =
      lowering.normalizeAxes(givenAxes->value_or(llvm::to_vector(
                                 llvm::seq<int64_t>(0, starts->size()))),
                             rank);
  if (failed(axes))
    return failure();
  SmallVector<int64_t> steps(starts->size(), 1);
  if (lowering.node.getInput(4)) {
    FailureOr<SmallVector<int64_t>> given =
        lowering.getConstantInput(4, "steps");
    if (failed(given))
      return failure();
    steps = *given;
  }
  if (starts->size() != ends->size() || starts->size() != axes->size() ||
      starts->size() != steps.size())
    return lowering.error("has starts, ends, axes and steps of several "
                          "lengths");

  Value result = input;
  for (auto [start, end, axis, step] :
       llvm::zip_equal(*starts, *ends, *axes, steps)) {
    if (step < 1)
      return lowering.error("has the step " + Twine(step) +
                            "; only positive ones are supported");
    OpFoldResult size = lowering.getSize(input, axis);
    // Both count from the end if negative, and are cut to 0..size.
    auto clamp = [&](OpFoldResult position) -> OpFoldResult {
      auto x = getConstant(position), y = getConstant(size);
      if (x && y)
        return b.getIndexAttr(
            std::clamp<int64_t>(*x < 0 ? *x + *y : *x, 0, *y));
      if (x && *x == 0)
        return b.getIndexAttr(0);
      if (x && *x >= std::numeric_limits<int32_t>::max())
        return size; // what exporters write for "to the end"
      Value zero = lowering.constantIndex(0), total = lowering.asValue(size);
      Value value = x ? lowering.constantIndex(*x)
                      : toIndex(lowering, cast<Value>(position));
      Value isNegative =
          compare(lowering, arith::CmpIPredicate::slt, value, zero);
      value = select(lowering, isNegative,
                     arith::AddIOp::create(b, loc, value, total), value);
      value = arith::MaxSIOp::create(b, loc, value, zero);
      return arith::MinSIOp::create(b, loc, value, total).getResult();
    };
    OpFoldResult begin = clamp(start), finish = clamp(end), length;
    auto x = getConstant(begin), y = getConstant(finish);
    if (x && y) {
      length =
          b.getIndexAttr(std::max<int64_t>(0, (*y - *x + step - 1) / step));
    } else {
      Value difference = arith::SubIOp::create(b, loc, lowering.asValue(finish),
                                               lowering.asValue(begin));
      difference =
          arith::MaxSIOp::create(b, loc, difference, lowering.constantIndex(0));
      if (step != 1)
        difference = arith::CeilDivUIOp::create(b, loc, difference,
                                                lowering.constantIndex(step));
      length = difference;
    }
    result = slice(lowering, result, axis, begin, length, step);
  }
  results.push_back(result);
  return success();
}

static LogicalResult lowerGather(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0), indices = lowering.getTensor(1);
  if (!input || !indices)
    return failure();
  OpBuilder &b = lowering.builder;
  Location loc = lowering.loc;
  RankedTensorType type = typeOf(input), indicesType = typeOf(indices);
  if (!isa<IntegerType>(indicesType.getElementType()))
    return lowering.error("has indices that are no integers");
  FailureOr<int64_t> axis = lowering.normalizeAxis(
      lowering.node.getInt("axis").value_or(0), type.getRank());
  if (failed(axis))
    return failure();
  // One known element of a list, as of a shape: no tensor is needed.
  auto constant = getConstantInts(lowering.node.getInput(1));
  if (constant && type.getRank() == 1 && !type.isDynamicDim(0) &&
      isa<IntegerType>(type.getElementType()) && constant->size() <= 64) {
    SmallVector<Value> elements;
    for (int64_t index : *constant) {
      int64_t place = index < 0 ? index + type.getDimSize(0) : index;
      if (place < 0 || place >= type.getDimSize(0))
        return lowering.error("has the index " + Twine(index) +
                              " in a list of " + Twine(type.getDimSize(0)));
      elements.push_back(convertScalar(
          b, loc, lowering.extractInt(input, place), type.getElementType()));
    }
    results.push_back(tensor::FromElementsOp::create(
        b, loc,
        RankedTensorType::get(indicesType.getShape(), type.getElementType()),
        elements));
    return success();
  }

  Sizes sizes;
  for (int64_t i = 0; i < *axis; ++i)
    sizes.push_back(lowering.getSize(input, i));
  sizes.append(lowering.getSizes(indices));
  for (int64_t i = *axis + 1; i < type.getRank(); ++i)
    sizes.push_back(lowering.getSize(input, i));
  int64_t rank = sizes.size(), numIndices = indicesType.getRank();
  SmallVector<AffineExpr> exprs;
  for (int64_t i = 0; i < numIndices; ++i)
    exprs.push_back(b.getAffineDimExpr(*axis + i));
  Value limit = lowering.asValue(lowering.getSize(input, *axis));
  Value init = lowering.makeEmpty(sizes, type.getElementType());
  // An index out of range takes the nearest element, and nothing beside the
  // tensor is read. ONNX leaves it open.
  Value zero = lowering.constantIndex(0), one = lowering.constantIndex(1);
  lowering.check(compare(lowering, arith::CmpIPredicate::sgt, limit, zero),
                 "gathers from a dim without elements");
  Value last = arith::SubIOp::create(b, loc, limit, one);
  results.push_back(
      linalg::GenericOp::create(
          b, loc, init.getType(), indices, init,
          ArrayRef{AffineMap::get(rank, 0, exprs, b.getContext()),
                   b.getMultiDimIdentityMap(rank)},
          SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel),
          [&](OpBuilder &body, Location bodyLoc, ValueRange values) {
            Value integer =
                convertScalar(body, bodyLoc, values.front(), body.getI64Type());
            Value index = arith::IndexCastOp::create(
                body, bodyLoc, body.getIndexType(), integer);
            Value isNegative = arith::CmpIOp::create(
                body, bodyLoc, arith::CmpIPredicate::slt, index, zero);
            Value fromEnd = arith::AddIOp::create(body, bodyLoc, index, limit);
            index = arith::SelectOp::create(body, bodyLoc, isNegative, fromEnd,
                                            index);
            index = arith::MaxSIOp::create(body, bodyLoc, index, zero);
            index = arith::MinSIOp::create(body, bodyLoc, index, last);
            SmallVector<Value> position;
            for (int64_t i = 0; i < type.getRank(); ++i) {
              if (i == *axis)
                position.push_back(index);
              else
                position.push_back(linalg::IndexOp::create(
                    body, bodyLoc, i < *axis ? i : i + numIndices - 1));
            }
            Value element =
                tensor::ExtractOp::create(body, bodyLoc, input, position);
            linalg::YieldOp::create(body, bodyLoc, element);
          })
          .getResult(0));
  return success();
}

static LogicalResult lowerExpand(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0), shape = lowering.getTensor(1);
  if (!input || !shape)
    return failure();
  RankedTensorType shapeType = typeOf(shape);
  if (shapeType.getRank() != 1 || shapeType.isDynamicDim(0) ||
      !isa<IntegerType>(shapeType.getElementType()))
    return lowering.error("has a shape whose length is not known");
  auto constant = getConstantInts(lowering.node.getInput(1));
  int64_t rank = typeOf(input).getRank(), length = shapeType.getDimSize(0);
  OpBuilder &b = lowering.builder;
  Sizes sizes;
  for (int64_t i = 0, e = std::max(rank, length); i < e; ++i) {
    int64_t own = i - (e - rank), entry = i - (e - length);
    OpFoldResult size =
        own >= 0 ? lowering.getSize(input, own) : b.getIndexAttr(1);
    if (entry < 0) {
      sizes.push_back(size);
      continue;
    }
    OpFoldResult wanted;
    if (constant)
      wanted = b.getIndexAttr((*constant)[entry]);
    else
      wanted = toIndex(lowering, lowering.extractInt(shape, entry));
    auto x = getConstant(size), y = getConstant(wanted);
    if (y && *y < 0)
      return lowering.error("expands to the size " + Twine(*y));
    if (x && y && *x != 1 && *y != 1 && *x != *y)
      return lowering.error("expands the size " + Twine(*x) + " to " +
                            Twine(*y));
    if (x && *x == 1) {
      if (!y)
        lowering.check(compare(lowering, arith::CmpIPredicate::sge,
                               cast<Value>(wanted), lowering.constantIndex(0)),
                       "expands to a negative size");
      sizes.push_back(wanted);
    } else if (y && (*y == 1 || (x && *x == *y))) {
      sizes.push_back(size);
    } else {
      Value have = lowering.asValue(size), want = lowering.asValue(wanted);
      Value one = lowering.constantIndex(1);
      Value haveOne = compare(lowering, arith::CmpIPredicate::eq, have, one);
      Value result = select(lowering, haveOne, want, have);
      Value fits = arith::OrIOp::create(
          b, lowering.loc,
          compare(lowering, arith::CmpIPredicate::eq, want, result),
          compare(lowering, arith::CmpIPredicate::eq, want, one));
      fits = arith::AndIOp::create(b, lowering.loc, fits,
                                   compare(lowering, arith::CmpIPredicate::sge,
                                           result, lowering.constantIndex(0)));
      lowering.check(fits, "expands to sizes that it doesn't broadcast to");
      sizes.push_back(result);
    }
  }
  results.push_back(lowering.broadcastTo(input, sizes));
  return success();
}

/// Shape, with the attributes start and end of opset 15.
static LogicalResult lowerShape(NodeLowering &lowering, Results &results) {
  Value input = lowering.node.getInput(0);
  auto type = input ? dyn_cast<RankedTensorType>(input.getType()) : nullptr;
  if (!type)
    return lowering.error("has an input whose rank is not known");
  OpBuilder &b = lowering.builder;
  int64_t rank = type.getRank();
  auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0,
                               rank);
  };
  int64_t start = clamp(lowering.node.getInt("start").value_or(0));
  int64_t end = clamp(lowering.node.getInt("end").value_or(rank));
  SmallVector<Value> sizes;
  for (int64_t i = start; i < end; ++i)
    sizes.push_back(arith::IndexCastOp::create(
        b, lowering.loc, b.getI64Type(),
        lowering.asValue(lowering.getSize(input, i))));
  results.push_back(tensor::FromElementsOp::create(
      b, lowering.loc,
      RankedTensorType::get(static_cast<int64_t>(sizes.size()), b.getI64Type()),
      sizes));
  return success();
}

LowerFn mlir::tandem::lookupShapes(StringRef opType) {
  return llvm::StringSwitch<LowerFn>(opType)
      .Case("Concat", lowerConcat)
      .Case("Expand", lowerExpand)
      .Case("Flatten", lowerFlatten)
      .Case("Gather", lowerGather)
      .Case("Reshape", lowerReshape)
      .Case("Shape", lowerShape)
      .Case("Slice", lowerSlice)
      .Case("Split", lowerSplit)
      .Case("Squeeze", lowerSqueeze)
      .Case("Transpose", lowerTranspose)
      .Case("Unsqueeze", lowerUnsqueeze)
      .Default(nullptr);
}
