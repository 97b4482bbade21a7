//===- NodeLowering.cpp - One ONNX node to linalg -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/FusionReport.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tandem;

//===----------------------------------------------------------------------===//
// External data
//===----------------------------------------------------------------------===//

/// The model's file in a location, "" where it names none.
static StringRef findFile(Location loc) {
  StringRef file;
  loc->walk([&](Location inner) {
    auto fileLoc = dyn_cast<FileLineColLoc>(inner);
    if (!fileLoc)
      return WalkResult::advance();
    file = fileLoc.getFilename().getValue();
    return WalkResult::interrupt();
  });
  return file;
}

bool ExternalDataReader::read(Location loc, const onnx::ExternalRef &ref,
                              uint64_t size, SmallVectorImpl<char> &bytes,
                              std::string &error) {
  std::string where = folder;
  if (where.empty()) {
    StringRef file = findFile(loc);
    if (!file.ends_with(".onnx")) {
      error = "is external data, and its location does not name the model's "
              "file; give the folder as external-data-dir";
      return false;
    }
    where = llvm::sys::path::parent_path(file).str();
    if (where.empty())
      where = ".";
  }
  auto [entry, isNew] = files.try_emplace(where, where);
  return entry->second.read(ref, size, bytes, error);
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

bool mlir::tandem::isSupportedElementType(Type type) {
  if (isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(type))
    return true;
  auto integer = dyn_cast<IntegerType>(type);
  return integer && integer.isSignless() &&
         llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
}

Type mlir::tandem::getComputeType(Type type) {
  if (isa<Float16Type, BFloat16Type>(type))
    return Float32Type::get(type.getContext());
  return type;
}

/// The range check of a conversion from float to integer: what does not fit
/// becomes the nearest integer that does, and NaN becomes 0. ONNX leaves that
/// open; to LLVM it would be undefined.
static Value floatToInt(OpBuilder &b, Location loc, Value value,
                        IntegerType type) {
  auto floatType = cast<FloatType>(value.getType());
  const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
  unsigned width = type.getWidth();
  auto bound = [&](const APInt &integer) {
    APFloat number(semantics);
    number.convertFromAPInt(integer, /*IsSigned=*/true, APFloat::rmTowardZero);
    return arith::ConstantOp::create(b, loc, FloatAttr::get(floatType, number));
  };
  Value low = bound(APInt::getSignedMinValue(width));
  Value high = bound(APInt::getSignedMaxValue(width));
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(floatType));
  Value isNaN =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  value = arith::SelectOp::create(b, loc, isNaN, zero, value);
  value = arith::MaximumFOp::create(b, loc, value, low);
  value = arith::MinimumFOp::create(b, loc, value, high);
  return arith::FPToSIOp::create(b, loc, type, value);
}

Value mlir::tandem::convertScalar(OpBuilder &b, Location loc, Value value,
                                  Type type) {
  Type from = value.getType();
  if (from == type)
    return value;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(type);
  // To bool: whether it is not zero.
  if (type.isInteger(1)) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(from));
    if (fromFloat)
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value,
                                   zero);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (fromFloat && toFloat) {
    unsigned fromWidth = from.getIntOrFloatBitWidth();
    unsigned width = type.getIntOrFloatBitWidth();
    if (fromWidth < width) {
      // f16 and bf16 to f64 go through f32, which is exact.
      if (fromWidth == 16 && width == 64)
        value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
      return arith::ExtFOp::create(b, loc, type, value);
    }
    if (fromWidth == width) // f16 and bf16
      value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
    else if (fromWidth == 64 && width == 16)
      value = arith::TruncFOp::create(b, loc, b.getF32Type(), value);
    return arith::TruncFOp::create(b, loc, type, value);
  }
  if (fromFloat) {
    value = convertScalar(b, loc, value, getComputeType(from));
    return floatToInt(b, loc, value, cast<IntegerType>(type));
  }
  if (toFloat) {
    Type compute = getComputeType(type);
    if (from.isInteger(1))
      value = arith::UIToFPOp::create(b, loc, compute, value);
    else
      value = arith::SIToFPOp::create(b, loc, compute, value);
    return convertScalar(b, loc, value, type);
  }
  unsigned fromWidth = from.getIntOrFloatBitWidth();
  if (fromWidth > type.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(b, loc, type, value);
  if (fromWidth == 1)
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

//===----------------------------------------------------------------------===//
// The node and its inputs
//===----------------------------------------------------------------------===//

NodeLowering::NodeLowering(OnnxNode node, const BroadcastFacts &facts,
                           ExternalDataReader &externalData)
    : node(node), builder(node.getOperation()),
      loc(node.getOperation()->getLoc()),
      previous(node.getOperation()->getPrevNode()), facts(facts),
      externalData(externalData) {}

LogicalResult NodeLowering::error(const Twine &message) const {
  Operation *op = node.getOperation();
  InFlightDiagnostic diagnostic = mlir::emitError(loc);
  diagnostic << "tandem-onnx-to-linalg: ";
  if (auto name = op->getAttrOfType<StringAttr>("onnx_node_name"))
    diagnostic << "node '" << name.getValue() << "' ";
  else if (auto names = op->getAttrOfType<ArrayAttr>("tandem.outputs");
           names && op->hasAttr("tandem.initializer") && names.size() == 1 &&
           isa<StringAttr>(names[0]))
    diagnostic << "initializer '" << cast<StringAttr>(names[0]).getValue()
               << "' ";
  return diagnostic << "(" << node.getOpType() << ") " << message;
}

Value NodeLowering::getTensor(unsigned index) {
  Value input = node.getInput(index);
  if (!input) {
    // The importer gives the type none to what it knows nothing of; to an
    // OnnxNode such a value is an input left out, as it is in onnx-mlir.
    ValueRange operands = node.getOperation()->getOperands();
    if (index >= operands.size() || isLeftOut(operands[index]))
      (void)error("lacks input #" + Twine(index));
    else
      (void)error("has input #" + Twine(index) +
                  ", whose type is not known: declare it in the model, or run "
                  "shape inference on it");
    return nullptr;
  }
  auto type = dyn_cast<RankedTensorType>(input.getType());
  if (!type) {
    (void)error("has input #" + Twine(index) + ", whose rank is not known");
    return nullptr;
  }
  if (!isSupportedElementType(type.getElementType())) {
    std::string text;
    llvm::raw_string_ostream(text) << type.getElementType();
    (void)error("has input #" + Twine(index) + " of " + text +
                ", which can't be computed with");
    return nullptr;
  }
  return input;
}

FailureOr<SmallVector<Value>> NodeLowering::getTensors() {
  SmallVector<Value> inputs;
  for (unsigned i = 0, e = node.getNumInputs(); i < e; ++i) {
    Value input = getTensor(i);
    if (!input)
      return failure();
    inputs.push_back(input);
  }
  if (inputs.empty())
    return error("has no inputs");
  return inputs;
}

FailureOr<SmallVector<int64_t>> NodeLowering::getConstantInput(unsigned index,
                                                               StringRef name) {
  if (auto ints = getConstantInts(node.getInput(index)))
    return *ints;
  return error("has " + name + " that are not constant");
}

FailureOr<std::optional<SmallVector<int64_t>>>
NodeLowering::getIntsFromAttrOrInput(StringRef name, unsigned index) {
  std::optional<SmallVector<int64_t>> given = node.getInts(name);
  if (given || !node.getInput(index))
    return given;
  FailureOr<SmallVector<int64_t>> ints = getConstantInput(index, name);
  if (failed(ints))
    return failure();
  // NOLINTNEXTLINE(bugprone-optional-value-conversion): from a FailureOr.
  return std::optional<SmallVector<int64_t>>(*ints);
}

FailureOr<int64_t> NodeLowering::normalizeAxis(int64_t axis,
                                               int64_t rank) const {
  int64_t result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank)
    return error("has the axis " + Twine(axis) + " of a tensor of rank " +
                 Twine(rank));
  return result;
}

FailureOr<SmallVector<int64_t>>
NodeLowering::normalizeAxes(ArrayRef<int64_t> axes, int64_t rank) const {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    FailureOr<int64_t> normal = normalizeAxis(axis, rank);
    if (failed(normal))
      return failure();
    if (llvm::is_contained(result, *normal))
      return error("names the axis " + Twine(axis) + " twice");
    result.push_back(*normal);
  }
  return result;
}

RankedTensorType NodeLowering::getResultType(unsigned index) const {
  return dyn_cast<RankedTensorType>(
      node.getOperation()->getResult(index).getType());
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Value NodeLowering::constantIndex(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value NodeLowering::asValue(OpFoldResult size) {
  return getValueOrCreateConstantIndexOp(builder, loc, size);
}

/// The operands that have the shape of what `op` makes; none where it makes
/// another one.
static SmallVector<Value, 2> getSameShaped(Operation *op) {
  if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
    return {fused.getInput()};
  if (isa<AllReduceOp, RMSNormOp, tensor::CastOp>(op))
    return {op->getOperand(0)};
  if (isa<AddOp>(op))
    return {op->getOperand(0), op->getOperand(1)};
  return {};
}

/// How many ops are looked through in a row.
static constexpr int maxShapeSteps = 32;

/// Whether `value` has the shape of `target` because ops that keep shapes
/// lead from one to the other.
static bool hasShapeOf(Value value, Value target, int steps) {
  if (value == target)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || steps == 0)
    return false;
  return llvm::any_of(getSameShaped(op), [&](Value operand) {
    return hasShapeOf(operand, target, steps - 1);
  });
}

/// A value of the shape of `tensor`, as far up as ops that keep shapes go,
/// through both branches of a guard: so sizes are those of arguments, and can
/// be asked for before anything runs.
static Value findShapeSource(Value tensor) {
  for (int steps = maxShapeSteps; steps > 0; --steps) {
    Operation *op = tensor.getDefiningOp();
    if (!op)
      break;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch) {
      SmallVector<Value, 2> operands = getSameShaped(op);
      if (operands.empty())
        break;
      tensor = operands.front();
      continue;
    }
    unsigned number = cast<OpResult>(tensor).getResultNumber();
    if (branch.getElseRegion().empty())
      break;
    Value source = branch.thenYield().getOperand(number);
    while (source.getParentRegion() == &branch.getThenRegion()) {
      Operation *inner = source.getDefiningOp();
      SmallVector<Value, 2> operands =
          inner ? getSameShaped(inner) : SmallVector<Value, 2>();
      if (operands.empty())
        break;
      source = operands.front();
    }
    bool isOutside =
        !branch->isAncestor(source.getParentRegion()->getParentOp());
    if (!isOutside || !hasShapeOf(branch.elseYield().getOperand(number), source,
                                  maxShapeSteps))
      break;
    tensor = source;
  }
  return tensor;
}

/// The size of a dimension, where an op up the way says it; else null, and
/// `tensor` is the value to ask.
static OpFoldResult resolveSize(Value &tensor, int64_t dim) {
  while (true) {
    tensor = findShapeSource(tensor);
    auto type = cast<RankedTensorType>(tensor.getType());
    if (!type.isDynamicDim(dim))
      return Builder(tensor.getContext()).getIndexAttr(type.getDimSize(dim));
    Operation *op = tensor.getDefiningOp();
    if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op))
      return empty.getMixedSizes()[dim];
    if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
      return expand.getMixedOutputShape()[dim];
    auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op);
    if (slice && slice.getSourceType().getRank() == type.getRank())
      return slice.getMixedSizes()[dim];
    auto destination = dyn_cast_or_null<DestinationStyleOpInterface>(op);
    if (!destination)
      return nullptr;
    tensor = destination.getTiedOpOperand(cast<OpResult>(tensor))->get();
  }
}

/// Whether two sizes are the same value, or the same dimension of one value.
static bool isSameSize(OpFoldResult a, OpFoldResult b) {
  if (a == b)
    return true;
  auto x = dyn_cast<Value>(a), y = dyn_cast<Value>(b);
  auto dimX = x ? x.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  auto dimY = y ? y.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  return dimX && dimY && dimX.getSource() == dimY.getSource() &&
         dimX.getConstantIndex() &&
         dimX.getConstantIndex() == dimY.getConstantIndex();
}

OpFoldResult NodeLowering::getSize(Value tensor, int64_t dim) {
  if (OpFoldResult size = resolveSize(tensor, dim))
    return size;
  return tensor::DimOp::create(builder, loc, tensor, dim).getResult();
}

Sizes NodeLowering::getSizes(Value tensor) {
  Sizes sizes;
  for (int64_t i = 0, e = cast<RankedTensorType>(tensor.getType()).getRank();
       i < e; ++i)
    sizes.push_back(getSize(tensor, i));
  return sizes;
}

Value NodeLowering::makeEmpty(const Sizes &sizes, Type elementType) {
  return tensor::EmptyOp::create(builder, loc, sizes, elementType);
}

OpFoldResult NodeLowering::multiply(OpFoldResult a, OpFoldResult b) {
  auto x = getConstantIntValue(a), y = getConstantIntValue(b);
  int64_t product = 0;
  if (x && y && !llvm::MulOverflow(*x, *y, product))
    return builder.getIndexAttr(product);
  return arith::MulIOp::create(builder, loc, asValue(a), asValue(b))
      .getResult();
}

void NodeLowering::check(Value condition, const Twine &message) {
  std::string text = ("node '" + node.getOpType() + "'").str();
  if (auto name =
          node.getOperation()->getAttrOfType<StringAttr>("onnx_node_name"))
    text = ("node '" + name.getValue() + "' (" + node.getOpType() + ")").str();
  cf::AssertOp::create(builder, loc, condition, (text + " " + message).str());
}

LogicalResult NodeLowering::checkEqual(OpFoldResult a, OpFoldResult b,
                                       const Twine &message) {
  if (isSameSize(a, b))
    return success();
  auto x = getConstantIntValue(a), y = getConstantIntValue(b);
  if (x && y) {
    if (*x == *y)
      return success();
    return error(message + ": " + Twine(*x) + " and " + Twine(*y));
  }
  check(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                              asValue(a), asValue(b)),
        message);
  return success();
}

/// A size for a check of what a cast says: not asked of what is cast, since
/// that takes over what the cast says.
static OpFoldResult makeSize(OpBuilder &builder, Location loc, Value tensor,
                             int64_t dim) {
  if (OpFoldResult size = resolveSize(tensor, dim))
    return size;
  auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse)
    return tensor::DimOp::create(builder, loc, tensor, dim).getResult();
  OpFoldResult product = builder.getIndexAttr(1);
  for (int64_t from : collapse.getReassociationIndices()[dim]) {
    OpFoldResult size = makeSize(builder, loc, collapse.getSrc(), from);
    auto x = getConstantIntValue(product), y = getConstantIntValue(size);
    int64_t both = 0;
    if (x && y && !llvm::MulOverflow(*x, *y, both))
      product = builder.getIndexAttr(both);
    else
      product = arith::MulIOp::create(
                    builder, loc,
                    getValueOrCreateConstantIndexOp(builder, loc, product),
                    getValueOrCreateConstantIndexOp(builder, loc, size))
                    .getResult();
  }
  return product;
}

LogicalResult NodeLowering::checkSize(Value tensor, int64_t dim, int64_t size,
                                      const Twine &message) {
  OpFoldResult found = resolveSize(tensor, dim);
  auto value = found ? dyn_cast<Value>(found) : tensor;
  Operation *after = value ? value.getDefiningOp() : nullptr;
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.getInsertionBlock();
  if (!after || after->getBlock() != block ||
      (previous && !previous->isBeforeInBlock(after)))
    after = previous;
  if (after)
    builder.setInsertionPointAfter(after);
  else
    builder.setInsertionPointToStart(block);
  if (!found)
    found = makeSize(builder, loc, tensor, dim);
  return checkEqual(found, builder.getIndexAttr(size), message);
}

void mlir::tandem::checkCast(tensor::CastOp cast) {
  auto from = dyn_cast<RankedTensorType>(cast.getSource().getType());
  auto to = dyn_cast<RankedTensorType>(cast.getType());
  if (!from || !to)
    return;
  OpBuilder builder(cast);
  Location loc = cast.getLoc();
  for (int64_t i = 0; i < to.getRank(); ++i) {
    if (!from.isDynamicDim(i) || to.isDynamicDim(i))
      continue;
    OpFoldResult size = makeSize(builder, loc, cast.getSource(), i);
    if (getConstantIntValue(size) == to.getDimSize(i))
      continue;
    Value isEqual = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq,
        getValueOrCreateConstantIndexOp(builder, loc, size),
        arith::ConstantIndexOp::create(builder, loc, to.getDimSize(i)));
    cf::AssertOp::create(builder, loc, isEqual,
                         getLocationText(loc) +
                             " has an output of another size than declared");
  }
}

Value NodeLowering::extractInt(Value tensor, int64_t index) {
  Type i64 = builder.getI64Type();
  auto type = cast<RankedTensorType>(tensor.getType());
  if (auto elements = tensor.getDefiningOp<tensor::FromElementsOp>())
    if (index < static_cast<int64_t>(elements.getElements().size()))
      return convertScalar(builder, loc, elements.getElements()[index], i64);
  SmallVector<Value> indices;
  if (type.getRank() == 1)
    indices.push_back(constantIndex(index));
  Value value = tensor::ExtractOp::create(builder, loc, tensor, indices);
  return convertScalar(builder, loc, value, i64);
}

//===----------------------------------------------------------------------===//
// Element-wise
//===----------------------------------------------------------------------===//

bool NodeLowering::isProvenEqual(int64_t fromRight) const {
  auto it = facts.find(node.getOperation());
  return it != facts.end() &&
         fromRight < static_cast<int64_t>(it->second.size()) &&
         it->second[fromRight];
}

static int64_t getRank(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank();
}

FailureOr<Sizes> NodeLowering::broadcastSizes(ArrayRef<Value> inputs,
                                              int64_t ignored) {
  int64_t rank = 0;
  for (Value input : inputs)
    rank = std::max(rank, getRank(input));
  Sizes sizes;
  for (int64_t fromRight = rank - 1; fromRight >= ignored; --fromRight) {
    // Where a size is only known at run time, it is that of the others or 1.
    std::optional<int64_t> constant;
    SmallVector<Value> unknown;
    for (Value input : inputs) {
      int64_t dim = getRank(input) - 1 - fromRight;
      if (dim < 0)
        continue;
      OpFoldResult size = getSize(input, dim);
      std::optional<int64_t> known = getConstantIntValue(size);
      if (!known)
        unknown.push_back(cast<Value>(size));
      else if (*known != 1 && constant && *constant != *known)
        return error("has inputs that don't broadcast: sizes " +
                     Twine(*constant) + " and " + Twine(*known));
      else if (*known != 1)
        constant = known;
    }
    if (unknown.empty()) {
      sizes.push_back(builder.getIndexAttr(constant.value_or(1)));
      continue;
    }
    bool areSame = llvm::all_of(
        unknown, [&](Value size) { return isSameSize(size, unknown.front()); });
    bool proven = isProvenEqual(fromRight) || (!constant && areSame);
    Value size = constant ? constantIndex(*constant) : unknown.front();
    if (!proven) {
      Value one = constantIndex(1);
      auto isEqual = [&](Value a, Value b) -> Value {
        return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a,
                                     b);
      };
      if (!constant)
        for (Value other : ArrayRef(unknown).drop_front())
          size = arith::SelectOp::create(builder, loc, isEqual(size, one),
                                         other, size);
      for (Value other : unknown) {
        if (other == size)
          continue;
        Value fits = arith::OrIOp::create(builder, loc, isEqual(other, size),
                                          isEqual(other, one));
        check(fits, "has inputs that don't broadcast");
      }
    }
    if (constant)
      sizes.push_back(builder.getIndexAttr(*constant));
    else
      sizes.push_back(size);
  }
  return sizes;
}

Value NodeLowering::elementwise(ArrayRef<Value> inputs, const Sizes &sizes,
                                Type elementType, Body body) {
  int64_t rank = sizes.size();
  MLIRContext *context = builder.getContext();
  SmallVector<Value> operands;
  SmallVector<AffineMap> maps;
  // An input with a size that is 1 or not, who knows, is read by its index.
  // For each input its place among the operands, or -1.
  SmallVector<int64_t> places;
  SmallVector<SmallVector<OpFoldResult>> ownSizes;
  for (Value input : inputs) {
    auto type = cast<RankedTensorType>(input.getType());
    SmallVector<AffineExpr> exprs;
    bool isDirect = true;
    for (int64_t i = 0, e = type.getRank(); i < e; ++i) {
      int64_t dim = rank - e + i;
      auto size = getConstantIntValue(sizes[dim]);
      if (type.isDynamicDim(i)) {
        isDirect &= isProvenEqual(e - 1 - i) || isSame(input, i, sizes[dim]);
        exprs.push_back(getAffineDimExpr(dim, context));
      } else if (type.getDimSize(i) == 1 && size != 1) {
        exprs.push_back(getAffineConstantExpr(0, context));
      } else {
        exprs.push_back(getAffineDimExpr(dim, context));
      }
    }
    ownSizes.push_back(isDirect ? Sizes() : getSizes(input));
    places.push_back(isDirect ? static_cast<int64_t>(operands.size()) : -1);
    if (!isDirect)
      continue;
    operands.push_back(input);
    maps.push_back(AffineMap::get(rank, 0, exprs, context));
  }
  maps.push_back(builder.getMultiDimIdentityMap(rank));
  Value one = constantIndex(1), zero = constantIndex(0);
  SmallVector<SmallVector<Value>> isOne(inputs.size());
  for (auto [index, own] : llvm::enumerate(ownSizes))
    for (OpFoldResult size : own)
      isOne[index].push_back(arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq, asValue(size), one));

  Value init = makeEmpty(sizes, elementType);
  auto generic = linalg::GenericOp::create(
      builder, loc, init.getType(), operands, init, maps,
      SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel),
      [&](OpBuilder &b, Location bodyLoc, ValueRange arguments) {
        SmallVector<Value> values;
        for (auto [index, input] : llvm::enumerate(inputs)) {
          if (places[index] >= 0) {
            values.push_back(arguments[places[index]]);
            continue;
          }
          SmallVector<Value> indices;
          for (int64_t i = 0, e = ownSizes[index].size(); i < e; ++i) {
            Value position = linalg::IndexOp::create(b, bodyLoc, rank - e + i);
            indices.push_back(arith::SelectOp::create(
                b, bodyLoc, isOne[index][i], zero, position));
          }
          values.push_back(
              tensor::ExtractOp::create(b, bodyLoc, input, indices));
        }
        linalg::YieldOp::create(b, bodyLoc, body(b, bodyLoc, values));
      });
  return generic.getResult(0);
}

bool NodeLowering::isSame(Value tensor, int64_t dim, OpFoldResult size) const {
  if (OpFoldResult known = resolveSize(tensor, dim))
    return isSameSize(known, size);
  auto value = dyn_cast<Value>(size);
  auto dimOp = value ? value.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  return dimOp && dimOp.getSource() == tensor &&
         dimOp.getConstantIndex() == dim;
}

FailureOr<Value> NodeLowering::broadcastElementwise(ArrayRef<Value> inputs,
                                                    Type elementType,
                                                    Body body) {
  FailureOr<Sizes> sizes = broadcastSizes(inputs);
  if (failed(sizes))
    return failure();
  return elementwise(inputs, *sizes, elementType, body);
}

Value NodeLowering::broadcastTo(Value input, const Sizes &sizes) {
  return elementwise(
      input, sizes, cast<RankedTensorType>(input.getType()).getElementType(),
      [](OpBuilder &, Location, ValueRange values) { return values.front(); });
}

Value NodeLowering::convertTensor(Value tensor, Type elementType) {
  if (cast<RankedTensorType>(tensor.getType()).getElementType() == elementType)
    return tensor;
  return elementwise(tensor, getSizes(tensor), elementType,
                     [&](OpBuilder &b, Location bodyLoc, ValueRange values) {
                       return convertScalar(b, bodyLoc, values.front(),
                                            elementType);
                     });
}

Value NodeLowering::transpose(Value tensor, ArrayRef<int64_t> permutation) {
  Sizes sizes;
  for (int64_t dim : permutation)
    sizes.push_back(getSize(tensor, dim));
  Value init = makeEmpty(
      sizes, cast<RankedTensorType>(tensor.getType()).getElementType());
  return linalg::TransposeOp::create(builder, loc, tensor, init, permutation)
      .getResult()
      .front();
}
