//===- TandemBufferization.cpp - From tensors to buffers ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/TandemBufferization.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/LaunchBuilder.h"
#include "tandem/Dialect/RowLayout.h"
#include "tandem/Dialect/Tandem.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace mlir::tandem;

namespace {
/// Makes the buffers of one op.
class Buffers {
public:
  Buffers(RewriterBase &rewriter, Location loc,
          const BufferizationOptions &options, BufferizationState &state)
      : rewriter(rewriter), loc(loc), options(options), state(state) {}

  /// The buffer of `tensor`, null for a null tensor. One whose rows the runtime
  /// can't step through is copied.
  FailureOr<Value> getInput(Value tensor);
  /// A new buffer of `tensor`'s shape.
  FailureOr<Value> allocateLike(Value tensor);

private:
  FailureOr<Value> allocate(MemRefType type, ValueRange sizes) {
    return options.createAlloc(rewriter, loc, type, sizes);
  }

  RewriterBase &rewriter;
  Location loc;
  const BufferizationOptions &options;
  BufferizationState &state;
};
} // namespace

FailureOr<Value> Buffers::getInput(Value tensor) {
  if (!tensor)
    return Value();
  FailureOr<Value> buffer = getBuffer(rewriter, tensor, options, state);
  if (failed(buffer))
    return failure();
  auto type = dyn_cast<MemRefType>(buffer->getType());
  if (!type)
    return failure();
  if (succeeded(getRowLayout(type)))
    return buffer;
  SmallVector<Value> sizes;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (type.isDynamicDim(i))
      sizes.push_back(memref::DimOp::create(rewriter, loc, *buffer, i));
  FailureOr<Value> copy = allocate(
      MemRefType::get(type.getShape(), type.getElementType(),
                      MemRefLayoutAttrInterface(), type.getMemorySpace()),
      sizes);
  if (failed(copy) ||
      failed(options.createMemCpy(rewriter, loc, *buffer, *copy)))
    return failure();
  return copy;
}

FailureOr<Value> Buffers::allocateLike(Value tensor) {
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  if (!type)
    return failure();
  FailureOr<Value> buffer = getBuffer(rewriter, tensor, options, state);
  if (failed(buffer))
    return failure();
  SmallVector<Value> sizes;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (type.isDynamicDim(i))
      sizes.push_back(memref::DimOp::create(rewriter, loc, *buffer, i));
  Attribute space = cast<BaseMemRefType>(buffer->getType()).getMemorySpace();
  return allocate(MemRefType::get(type.getShape(), type.getElementType(),
                                  MemRefLayoutAttrInterface(), space),
                  sizes);
}

namespace {
/// What the two ops with destinations have in common.
template <typename Model, typename OpTy>
struct DestinationModel
    : public DstBufferizableOpInterfaceExternalModel<Model, OpTy> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand,
                              const AnalysisState &) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }

  /// The runtime allows an output to be the very buffer of an input with rows.
  bool bufferizesToElementwiseAccess(Operation *op, const AnalysisState &,
                                     ArrayRef<OpOperand *> operands) const {
    auto concrete = cast<OpTy>(op);
    auto dps = cast<DestinationStyleOpInterface>(op);
    return llvm::all_of(operands, [&](OpOperand *operand) {
      if (dps.isDpsInit(operand) || operand == &concrete.getInputMutable())
        return true;
      MutableOperandRange residual = concrete.getResidualMutable();
      return !residual.empty() && operand == &residual[0];
    });
  }

  /// Outputs must not overlap. Where nobody reads them, upstream's analysis
  /// sees no conflict in that.
  LogicalResult resolveConflicts(Operation *op, RewriterBase &rewriter,
                                 const AnalysisState &analysis,
                                 const BufferizationState &state) const {
    auto dps = cast<DestinationStyleOpInterface>(op);
    SmallVector<Value> before(dps.getDpsInits());
    if (failed(
            cast<BufferizableOpInterface>(op).resolveTensorOpOperandConflicts(
                rewriter, analysis, state)))
      return failure();
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    for (unsigned i = 1; i < before.size(); ++i) {
      OpOperand &init = *dps.getDpsInitOperand(i);
      bool overlaps = false;
      for (unsigned j = 0; j < i; ++j) {
        Value other = dps.getDpsInits()[j];
        // What has changed has a buffer of its own by now.
        overlaps |= init.get() == other ||
                    (init.get() == before[i] && other == before[j] &&
                     analysis.areAliasingBufferizedValues(other, init.get()));
      }
      if (!overlaps)
        continue;
      FailureOr<Value> own = allocateTensorForShapedValue(
          rewriter, op->getLoc(), init.get(), analysis.getOptions(), state,
          /*copy=*/false);
      if (failed(own))
        return failure();
      rewriter.modifyOpInPlace(op, [&] { init.set(*own); });
    }
    return success();
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto concrete = cast<OpTy>(op);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    LaunchBuilder launch(concrete);
    Buffers buffers(rewriter, op->getLoc(), options, state);
    for (Value *operand : launch.getInputs()) {
      FailureOr<Value> buffer = buffers.getInput(*operand);
      if (failed(buffer))
        return op->emitOpError("operand has no ranked buffer");
      *operand = *buffer;
    }
    // A destination that the runtime can't write to gets its result later.
    SmallVector<Value> destinations;
    for (Value &init : launch.inits) {
      FailureOr<Value> destination = getBuffer(rewriter, init, options, state);
      if (failed(destination) || !isa<MemRefType>(destination->getType()))
        return op->emitOpError("destination has no ranked buffer");
      destinations.push_back(*destination);
      if (succeeded(getRowLayout(cast<MemRefType>(destination->getType())))) {
        init = *destination;
        continue;
      }
      FailureOr<Value> temporary = buffers.allocateLike(init);
      if (failed(temporary))
        return op->emitOpError("could not allocate a buffer");
      init = *temporary;
    }
    launch.create(rewriter, op->getLoc());
    for (auto [from, to] : llvm::zip_equal(launch.inits, destinations))
      if (from != to &&
          failed(options.createMemCpy(rewriter, op->getLoc(), from, to)))
        return failure();
    replaceOpWithBufferizedValues(rewriter, op, destinations);
    return success();
  }
};

struct LaunchModel : public DestinationModel<LaunchModel, LaunchOp> {};
struct FusedModel : public DestinationModel<FusedModel, FusedAllReduceNormOp> {
};

/// An op that allocates its result.
template <typename Model, typename OpTy>
struct AllocatingModel
    : public BufferizableOpInterface::ExternalModel<Model, OpTy> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return true;
  }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &,
                               const AnalysisState &) const {
    return false;
  }
  AliasingValueList getAliasingValues(Operation *, OpOperand &,
                                      const AnalysisState &) const {
    return {};
  }
  bool bufferizesToAllocation(Operation *, Value) const { return true; }

  FailureOr<BufferLikeType> getBufferType(Operation *op, Value value,
                                          const BufferizationOptions &,
                                          const BufferizationState &,
                                          SmallVector<Value> &) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return op->emitOpError("unranked tensors can't be lowered");
    return cast<BufferLikeType>(
        MemRefType::get(type.getShape(), type.getElementType()));
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    Buffers buffers(rewriter, op->getLoc(), options, state);
    FailureOr<Value> result = buffers.allocateLike(op->getOperand(0));
    if (failed(result))
      return op->emitOpError("unranked tensors can't be lowered");
    if (failed(static_cast<const Model *>(this)->compute(
            cast<OpTy>(op), rewriter, options, state, buffers, *result)))
      return failure();
    replaceOpWithBufferizedValues(rewriter, op, *result);
    return success();
  }
};

/// One that becomes a call of the runtime.
template <typename Model, typename OpTy>
struct CallModel : public AllocatingModel<Model, OpTy> {
  LogicalResult compute(OpTy op, RewriterBase &rewriter,
                        const BufferizationOptions &, BufferizationState &,
                        Buffers &buffers, Value result) const {
    LaunchBuilder launch(op);
    for (Value *operand : launch.getInputs()) {
      FailureOr<Value> buffer = buffers.getInput(*operand);
      if (failed(buffer))
        return op.emitOpError("operand has no ranked buffer");
      *operand = *buffer;
    }
    launch.inits = {result};
    launch.create(rewriter, op.getLoc());
    return success();
  }
};

struct AllReduceModel : public CallModel<AllReduceModel, AllReduceOp> {};
struct RMSNormModel : public CallModel<RMSNormModel, RMSNormOp> {};

struct AddModel : public AllocatingModel<AddModel, AddOp> {
  LogicalResult compute(AddOp op, RewriterBase &rewriter,
                        const BufferizationOptions &options,
                        BufferizationState &state, Buffers &,
                        Value result) const {
    FailureOr<Value> lhs = getBuffer(rewriter, op.getLhs(), options, state);
    FailureOr<Value> rhs = getBuffer(rewriter, op.getRhs(), options, state);
    if (failed(lhs) || failed(rhs))
      return failure();
    createAdd(rewriter, op.getLoc(), TypeRange(), {*lhs, *rhs}, result);
    return success();
  }
};
} // namespace

void mlir::tandem::registerTandemBufferizationModels(
    DialectRegistry &registry) {
  // Only with the bufferization dialect, so that programs that don't bufferize
  // load nothing more.
  registry.addExtension(
      +[](MLIRContext *context, TandemDialect *, BufferizationDialect *) {
        LaunchOp::attachInterface<LaunchModel>(*context);
        FusedAllReduceNormOp::attachInterface<FusedModel>(*context);
        AllReduceOp::attachInterface<AllReduceModel>(*context);
        RMSNormOp::attachInterface<RMSNormModel>(*context);
        AddOp::attachInterface<AddModel>(*context);
        context->loadDialect<arith::ArithDialect, linalg::LinalgDialect,
                             memref::MemRefDialect>();
      });
}
