//===- TandemOps.cpp - Ops of the tandem dialect -------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::tandem;

#include "tandem/Dialect/TandemInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/TandemOps.cpp.inc"

std::optional<int64_t>
mlir::tandem::getStaticTokenCount(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return std::nullopt;
  int64_t tokens = 1;
  for (int64_t dim : shape.drop_back())
    if (ShapedType::isDynamic(dim) || llvm::MulOverflow(tokens, dim, tokens))
      return std::nullopt;
  return tokens;
}

/// The dims of a ranked tensor, static ones as attributes.
static LogicalResult reifyShapeOf(OpBuilder &builder, Location loc, Value value,
                                  ReifiedRankedShapedTypeDims &shapes) {
  if (!isa<RankedTensorType>(value.getType()))
    return failure();
  shapes.push_back(tensor::getMixedSizes(builder, loc, value));
  return success();
}

/// Checks the terminator of a source region against the op's result.
static LogicalResult verifySource(Operation *op, Region &source) {
  if (source.empty())
    return success();
  Block &block = source.front();
  auto yield = block.empty() ? nullptr : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op->emitOpError("source region must end in tandem.yield");
  ValueRange values = yield.getValues();
  if (values.empty() || values.size() > 2)
    return op->emitOpError("source region must yield one or two values, not ")
           << values.size();
  if (auto positions =
          op->getAttrOfType<DenseI64ArrayAttr>("source_positions")) {
    auto count = static_cast<int64_t>(block.getOperations().size()) - 1;
    if (positions.size() != count)
      return op->emitOpError("has ")
             << positions.size() << " source positions for " << count
             << " source ops";
  }
  return success();
}

/// Checks that `vector` (gamma or bias) has the length of the last dimension.
static LogicalResult verifyPerHidden(Operation *op, StringRef what,
                                     Value vector, RankedTensorType type) {
  if (type.getRank() == 0)
    return op->emitOpError("input must have at least one dimension");
  int64_t hidden = type.getShape().back();
  int64_t length = cast<RankedTensorType>(vector.getType()).getDimSize(0);
  if (ShapedType::isDynamic(hidden) || ShapedType::isDynamic(length) ||
      hidden == length)
    return success();
  return op->emitOpError() << what << " has length " << length
                           << ", but the last dimension is " << hidden;
}

static LogicalResult verifyEpsilon(Operation *op, StringRef what,
                                   const APFloat &epsilon) {
  if (epsilon.isFinite() && !epsilon.isNegative())
    return success();
  SmallString<16> text;
  epsilon.toString(text);
  return op->emitOpError() << what << " must be finite and not negative, not "
                           << text;
}

//===----------------------------------------------------------------------===//
// AllReduceOp
//===----------------------------------------------------------------------===//

void AllReduceOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ReductionKind reduction, GroupAttr group) {
  if (!group)
    group = GroupAttr::getWorld(builder.getContext());
  build(builder, state, input.getType(), input, /*workspace=*/Value(),
        /*stream=*/Value(), reduction, group, /*fallback=*/false,
        /*batch_invariant=*/false, /*source_positions=*/{});
}

LogicalResult AllReduceOp::verify() { return verifySource(*this, getSource()); }

LogicalResult
AllReduceOp::reifyResultShapes(OpBuilder &builder,
                               ReifiedRankedShapedTypeDims &shapes) {
  return reifyShapeOf(builder, getLoc(), getInput(), shapes);
}

OpOperand &AllReduceOp::getReducedOperand() { return getInputMutable(); }
Value AllReduceOp::getReducedResult() { return getResult(); }
ReductionKind AllReduceOp::getReductionKind() { return getReduction(); }
GroupAttr AllReduceOp::getReductionGroup() { return getGroupAttr(); }
bool AllReduceOp::isFusionFallback() { return getFallback(); }

void AllReduceOp::markFusionFallback(bool batchInvariant) {
  setFallback(true);
  setBatchInvariant(getBatchInvariant() || batchInvariant);
}

//===----------------------------------------------------------------------===//
// AddOp
//===----------------------------------------------------------------------===//

void AddOp::build(OpBuilder &builder, OperationState &state, Value lhs,
                  Value rhs) {
  build(builder, state, lhs.getType(), lhs, rhs, /*source_positions=*/{});
}

LogicalResult AddOp::verify() { return verifySource(*this, getSource()); }

LogicalResult AddOp::reifyResultShapes(OpBuilder &builder,
                                       ReifiedRankedShapedTypeDims &shapes) {
  return reifyShapeOf(builder, getLoc(), getLhs(), shapes);
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  // Only -0.0 is neutral: x + 0.0 turns -0.0 into 0.0.
  auto isNegativeZero = [](Attribute attr) {
    auto splat = dyn_cast_if_present<SplatElementsAttr>(attr);
    return splat && splat.getSplatValue<APFloat>().isNegZero();
  };
  if (isNegativeZero(adaptor.getRhs()))
    return getLhs();
  if (isNegativeZero(adaptor.getLhs()))
    return getRhs();
  return {};
}

//===----------------------------------------------------------------------===//
// RMSNormOp
//===----------------------------------------------------------------------===//

void RMSNormOp::build(OpBuilder &builder, OperationState &state, Value input,
                      Value gamma, double epsilon, NormRounding rounding) {
  build(builder, state, input.getType(), input, gamma,
        builder.getF64FloatAttr(epsilon).getValue(), rounding,
        /*source_positions=*/{});
}

LogicalResult RMSNormOp::verify() {
  if (failed(verifyPerHidden(*this, "gamma", getGamma(),
                             cast<RankedTensorType>(getInput().getType()))) ||
      failed(verifyEpsilon(*this, "epsilon", getEpsilon())))
    return failure();
  return verifySource(*this, getSource());
}

LogicalResult
RMSNormOp::reifyResultShapes(OpBuilder &builder,
                             ReifiedRankedShapedTypeDims &shapes) {
  return reifyShapeOf(builder, getLoc(), getInput(), shapes);
}

OpOperand &RMSNormOp::getNormOperand() { return getInputMutable(); }
Value RMSNormOp::getNormGamma() { return getGamma(); }
Value RMSNormOp::getNormResult() { return getResult(); }
FloatAttr RMSNormOp::getNormEpsilon() { return getEpsilonAttr(); }
NormRounding RMSNormOp::getNormRounding() { return getRounding(); }

//===----------------------------------------------------------------------===//
// FusedAllReduceNormOp
//===----------------------------------------------------------------------===//

/// Whether tensors of both types can be of one shape. Casts that tell more of
/// one operand's shape may be folded into the op, so types need not be equal.
static bool fits(Type a, RankedTensorType b) {
  auto type = cast<RankedTensorType>(a);
  return type.getElementType() == b.getElementType() &&
         succeeded(verifyCompatibleShape(type.getShape(), b.getShape()));
}

LogicalResult FusedAllReduceNormOp::verify() {
  auto type = cast<RankedTensorType>(getInput().getType());
  if (failed(verifyPerHidden(*this, "gamma", getGamma(), type)) ||
      failed(verifyEpsilon(*this, "epsilon", getEpsilon())))
    return failure();
  if (getResidual() && !fits(getResidual().getType(), type))
    return emitOpError("residual has type ")
           << getResidual().getType()
           << ", which does not fit the input's type " << type;
  if (Value bias = getBias()) {
    if (failed(verifyPerHidden(*this, "bias", bias, type)))
      return failure();
    Type elementType = cast<RankedTensorType>(bias.getType()).getElementType();
    if (elementType != type.getElementType())
      return emitOpError("bias has element type ")
             << elementType << ", but the input has " << type.getElementType();
  }
  if (static_cast<bool>(getPreGamma()) != getPreEpsilon().has_value())
    return emitOpError("pre_gamma and pre_epsilon must be given together");
  if (getPreGamma()) {
    if (!getResidual())
      return emitOpError("pre_gamma needs a residual: without one the second "
                         "norm would follow the first directly");
    if (failed(verifyPerHidden(*this, "pre_gamma", getPreGamma(), type)) ||
        failed(verifyEpsilon(*this, "pre_epsilon", *getPreEpsilon())))
      return failure();
  }
  if (getReturnsResidual() && !getResidual())
    return emitOpError("returns_residual needs a residual");
  size_t count = 1 + getReturnsResidual() + getReturnsSum();
  if (getInits().size() != count)
    return emitOpError("needs ")
           << count << " destinations in outs, got " << getInits().size();
  if (getResults().size() != count)
    return emitOpError("needs ")
           << count << " results, got " << getResults().size();
  for (Value init : getInits())
    if (!fits(init.getType(), type))
      return emitOpError("destination has type ")
             << init.getType() << ", which does not fit the input's type "
             << type;
  return success();
}

LogicalResult
FusedAllReduceNormOp::reifyResultShapes(OpBuilder &builder,
                                        ReifiedRankedShapedTypeDims &shapes) {
  for (Value init : getInits())
    if (failed(reifyShapeOf(builder, getLoc(), init, shapes)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

/// Says which operands and attributes a call can't have; null: none of those
/// that are there.
static const char *findUnexpected(LaunchOp op) {
  bool isAllReduce = op.getCall() == RuntimeCall::AllReduce;
  bool isPlainNorm = op.getCall() == RuntimeCall::RMSNorm;
  if (isAllReduce && op.getGamma())
    return "gamma";
  if (isAllReduce && op.getEpsilon())
    return "epsilon";
  if (isAllReduce || isPlainNorm) {
    if (op.getResidual())
      return "residual";
    if (op.getBias())
      return "bias";
    if (op.getPreGamma())
      return "pre_gamma";
    if (op.getReturnsResidual())
      return "returns_residual";
  }
  if (op.getReturnsSum() && op.getCall() != RuntimeCall::FusedAllReduceNorm)
    return "returns_sum";
  if (op.getFallback() && !isAllReduce)
    return "fallback";
  if (op.getReduction() != ReductionKind::Sum && !isAllReduce)
    return "reduction";
  return nullptr;
}

LogicalResult LaunchOp::verify() {
  if (const char *name = findUnexpected(*this))
    return emitOpError(stringifyRuntimeCall(getCall()))
           << " does not take " << name;
  auto type = cast<ShapedType>(getInput().getType());
  auto fits = [&](Value value) {
    auto other = cast<ShapedType>(value.getType());
    return isa<MemRefType>(other) == isa<MemRefType>(type) &&
           other.getElementType() == type.getElementType() &&
           succeeded(verifyCompatibleShape(other.getShape(), type.getShape()));
  };
  auto mismatch = [&](StringRef what, Value value) {
    return emitOpError() << what << " has type " << value.getType()
                         << ", which does not fit the input's type " << type;
  };
  auto verifyRow = [&](StringRef what, Value value) -> LogicalResult {
    auto row = cast<ShapedType>(value.getType());
    if (isa<MemRefType>(row) != isa<MemRefType>(type))
      return mismatch(what, value);
    int64_t length = row.getDimSize(0), hidden = type.getShape().back();
    if (ShapedType::isStatic(length) && ShapedType::isStatic(hidden) &&
        length != hidden)
      return emitOpError() << what << " has length " << length
                           << ", but the last dimension is " << hidden;
    return success();
  };

  if (getCall() != RuntimeCall::AllReduce) {
    if (!getGamma() || !getEpsilon())
      return emitOpError(stringifyRuntimeCall(getCall()))
             << " needs gamma and epsilon";
    if (type.getRank() == 0)
      return emitOpError("input must have at least one dimension");
    if (failed(verifyRow("gamma", getGamma())) ||
        failed(verifyEpsilon(*this, "epsilon", *getEpsilon())))
      return failure();
  }
  if (getResidual() && !fits(getResidual()))
    return mismatch("residual", getResidual());
  if (getReturnsResidual() && !getResidual())
    return emitOpError("returns_residual needs a residual");
  if (static_cast<bool>(getPreGamma()) != getPreEpsilon().has_value())
    return emitOpError("pre_gamma and pre_epsilon must be given together");
  if (getPreGamma() &&
      (failed(verifyRow("pre_gamma", getPreGamma())) ||
       failed(verifyEpsilon(*this, "pre_epsilon", *getPreEpsilon()))))
    return failure();
  if (Value bias = getBias()) {
    if (failed(verifyRow("bias", bias)))
      return failure();
    if (cast<ShapedType>(bias.getType()).getElementType() !=
        type.getElementType())
      return mismatch("bias", bias);
  }
  size_t count = 1 + getReturnsResidual() + getReturnsSum();
  if (getInits().size() != count)
    return emitOpError("needs ")
           << count << " destinations in outs, got " << getInits().size();
  for (Value init : getInits())
    if (!fits(init))
      return mismatch("destination", init);
  if (isOnBuffers()) {
    if (getNumResults() != 1 || !getResult(0).getType().isInteger(32))
      return emitOpError("on buffers has one result, the i32 status");
    return success();
  }
  if (getNumResults() != count)
    return emitOpError("needs ")
           << count << " results, got " << getNumResults();
  for (auto [result, init] : llvm::zip_equal(getResults(), getInits()))
    if (result.getType() != init.getType())
      return emitOpError("result has type ")
             << result.getType() << ", but its destination has "
             << init.getType();
  return success();
}

LogicalResult LaunchOp::reifyResultShapes(OpBuilder &builder,
                                          ReifiedRankedShapedTypeDims &shapes) {
  if (isOnBuffers())
    return failure();
  for (size_t i = 0, e = getInits().size(); i != e; ++i)
    if (failed(reifyShapeOf(builder, getLoc(), getInput(), shapes)))
      return failure();
  return success();
}

void LaunchOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (isCollective()) {
    effects.emplace_back(MemoryEffects::Read::get(),
                         CommunicationResource::get());
    effects.emplace_back(MemoryEffects::Write::get(),
                         CommunicationResource::get());
  }
  if (!isOnBuffers())
    return;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    auto dps = cast<DestinationStyleOpInterface>(getOperation());
    if (dps.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
  }
}
