//===- RuntimeCalls.cpp - Calls of the runtime's C ABI --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/TandemToLLVM.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/FunctionCallUtils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/RowLayout.h"
#include "tandem/Runtime/tandem.h"

using namespace mlir;
using namespace mlir::tandem;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
/// The fields of tandem_norm_args, in order.
enum NormArg : int32_t {
  NormStructSize,
  NormTokens,
  NormHidden,
  NormDtype,
  NormFlags,
  NormStream,
  NormInput,
  NormResidual,
  NormBias,
  NormPreNorm,
  NormNorm,
  NormNormOut,
  NormResidualOut,
  NormSumOut,
};

/// The fields of tandem_all_reduce_args, in order.
enum AllReduceArg : int32_t {
  ReduceStructSize,
  ReduceTokens,
  ReduceHidden,
  ReduceDtype,
  ReduceFlags,
  ReduceStream,
  ReduceInput,
  ReduceOutput,
  ReduceReduction,
};
} // namespace

static LLVM::LLVMStructType getStruct(MLIRContext *context,
                                      ArrayRef<Type> fields) {
  return LLVM::LLVMStructType::getLiteral(context, fields);
}

/// tandem_view.
static LLVM::LLVMStructType getViewType(MLIRContext *context) {
  return getStruct(context, {LLVM::LLVMPointerType::get(context),
                             IntegerType::get(context, 64)});
}

/// tandem_norm_spec.
static LLVM::LLVMStructType getSpecType(MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32);
  return getStruct(context, {LLVM::LLVMPointerType::get(context), i32, i32,
                             Float64Type::get(context)});
}

LLVM::LLVMStructType mlir::tandem::getNormArgsType(MLIRContext *context) {
  Type i64 = IntegerType::get(context, 64), i32 = IntegerType::get(context, 32);
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type view = getViewType(context), spec = getSpecType(context);
  return getStruct(context,
                   {i64, i64, i64, i32, i32, ptr, view, view, ptr, spec, spec,
                    view, view, view, LLVM::LLVMArrayType::get(i64, 8)});
}

LLVM::LLVMStructType mlir::tandem::getAllReduceArgsType(MLIRContext *context) {
  Type i64 = IntegerType::get(context, 64), i32 = IntegerType::get(context, 32);
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type view = getViewType(context);
  return getStruct(context, {i64, i64, i64, i32, i32, ptr, view, view, i32, i32,
                             LLVM::LLVMArrayType::get(i64, 4)});
}

static std::optional<tandem_dtype> getDtype(Type type) {
  if (type.isF32())
    return TANDEM_DTYPE_F32;
  if (type.isF16())
    return TANDEM_DTYPE_F16;
  if (type.isBF16())
    return TANDEM_DTYPE_BF16;
  return std::nullopt;
}

static std::optional<tandem_reduction> getReduction(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
    return TANDEM_REDUCTION_SUM;
  case ReductionKind::Product:
    return TANDEM_REDUCTION_PROD;
  case ReductionKind::Min:
    return TANDEM_REDUCTION_MIN;
  case ReductionKind::Max:
    return TANDEM_REDUCTION_MAX;
  case ReductionKind::Average:
    return std::nullopt;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult mlir::tandem::verifyRuntimeCall(LaunchOp op) {
  auto type = dyn_cast<MemRefType>(op.getInput().getType());
  if (!type)
    return op.emitOpError("is not on buffers: run one-shot-bufferize first");
  if (op.isCollective() && !op.getWorkspace())
    return op.emitOpError("has no workspace: run "
                          "tandem-materialize-workspaces first");
  if (!getDtype(type.getElementType()))
    return op.emitOpError("has element type ")
           << type.getElementType()
           << "; the runtime knows f32, f16 and bf16 only";
  if (!getReduction(op.getReduction()))
    return op.emitOpError("the runtime has no reduction ")
           << stringifyReductionKind(op.getReduction());
  auto checkRows = [&](Value value, StringRef what) -> LogicalResult {
    if (!value || succeeded(getRowLayout(cast<MemRefType>(value.getType()))))
      return success();
    return op.emitOpError() << what << " has type " << value.getType()
                            << ", whose rows are not known to be contiguous "
                               "and evenly spaced";
  };
  auto checkVector = [&](Value value, StringRef what) -> LogicalResult {
    if (!value)
      return success();
    auto vector = cast<MemRefType>(value.getType());
    if (!getDtype(vector.getElementType()))
      return op.emitOpError()
             << what << " has element type " << vector.getElementType()
             << "; the runtime knows f32, f16 and bf16 only";
    return checkRows(value, what);
  };
  if (failed(checkRows(op.getInput(), "input")) ||
      failed(checkRows(op.getResidual(), "residual")) ||
      failed(checkVector(op.getBias(), "bias")) ||
      failed(checkVector(op.getPreGamma(), "pre_gamma")) ||
      failed(checkVector(op.getGamma(), "gamma")))
    return failure();
  for (Value init : op.getInits())
    if (failed(checkRows(init, "destination")))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Discardable attribute of the stack slot that holds a call's arguments; calls
/// of one function share it, one for each struct.
static constexpr StringRef slotAttrName = "tandem.arguments";

namespace {
/// Writes one call.
class CallBuilder {
public:
  CallBuilder(RewriterBase &rewriter, Operation *op)
      : rewriter(rewriter), op(op), loc(op->getLoc()),
        i32(rewriter.getI32Type()), i64(rewriter.getI64Type()),
        ptr(LLVM::LLVMPointerType::get(rewriter.getContext())) {}

  /// Takes the slot for `type` and clears it.
  void begin(LLVM::LLVMStructType type, uint64_t size);
  void set(ArrayRef<int32_t> field, Value value);
  void set(ArrayRef<int32_t> field, int32_t value) {
    set(field, constant(i32, value));
  }
  void setView(int32_t field, Value buffer);
  void setVector(ArrayRef<int32_t> field, Value buffer);
  void setNorm(int32_t field, Value gamma, const APFloat &epsilon,
               NormRounding rounding);
  /// Stores what both structs have.
  void setCommon(LaunchOp launch, Value stream);

  Value constant(Type type, int64_t value) {
    return LLVM::ConstantOp::create(rewriter, loc, type,
                                    rewriter.getIntegerAttr(type, value));
  }
  Value orNull(Value handle) {
    return handle ? handle : Value(LLVM::ZeroOp::create(rewriter, loc, ptr));
  }
  FailureOr<Value> call(StringRef name, ArrayRef<Value> arguments, Type result);
  FailureOr<Value> callWithSlot(StringRef name, Value workspace) {
    return call(name, {orNull(workspace), slot}, i32);
  }

private:
  Value toI64(Value index) {
    return arith::IndexCastOp::create(rewriter, loc, i64, index);
  }
  Value dim(Value buffer, unsigned i);
  Value pointer(Value buffer);

  RewriterBase &rewriter;
  Operation *op;
  Location loc;
  Type i32, i64, ptr;
  LLVM::LLVMStructType slotType;
  Value slot;
};
} // namespace

void CallBuilder::begin(LLVM::LLVMStructType type, uint64_t size) {
  slotType = type;
  auto function = op->getParentOfType<FunctionOpInterface>();
  Block &entry = function.getFunctionBody().front();
  // Slots stand first, so that they are found again and no loop makes the
  // stack grow.
  for (Operation &first : entry) {
    if (!isa<LLVM::ConstantOp, LLVM::AllocaOp>(first))
      break;
    auto alloca = dyn_cast<LLVM::AllocaOp>(first);
    if (alloca && alloca.getElemType() == type && alloca->hasAttr(slotAttrName))
      slot = alloca;
  }
  if (!slot) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(&entry);
    Value one = constant(i64, 1);
    auto alloca =
        LLVM::AllocaOp::create(rewriter, loc, ptr, type, one, /*alignment=*/8);
    alloca->setAttr(slotAttrName, rewriter.getUnitAttr());
    slot = alloca;
  }
  LLVM::MemsetOp::create(rewriter, loc, slot, constant(rewriter.getI8Type(), 0),
                         constant(i64, size), /*isVolatile=*/false);
}

void CallBuilder::set(ArrayRef<int32_t> field, Value value) {
  SmallVector<LLVM::GEPArg, 3> indices{0};
  for (int32_t index : field)
    indices.emplace_back(index);
  Value address =
      LLVM::GEPOp::create(rewriter, loc, ptr, slotType, slot, indices);
  LLVM::StoreOp::create(rewriter, loc, value, address);
}

Value CallBuilder::dim(Value buffer, unsigned i) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(i))
    return constant(i64, type.getDimSize(i));
  return toI64(memref::DimOp::create(rewriter, loc, buffer, i));
}

/// The address of a buffer's first element.
Value CallBuilder::pointer(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  Value address = toI64(
      memref::ExtractAlignedPointerAsIndexOp::create(rewriter, loc, buffer));
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  (void)type.getStridesAndOffset(strides, offset);
  if (offset != 0) {
    Value elements = ShapedType::isDynamic(offset)
                         ? toI64(memref::ExtractStridedMetadataOp::create(
                                     rewriter, loc, buffer)
                                     .getOffset())
                         : constant(i64, offset);
    Value bytes =
        LLVM::MulOp::create(rewriter, loc, elements,
                            constant(i64, type.getElementTypeBitWidth() / 8));
    address = LLVM::AddOp::create(rewriter, loc, address, bytes);
  }
  return LLVM::IntToPtrOp::create(rewriter, loc, ptr, address);
}

void CallBuilder::setView(int32_t field, Value buffer) {
  set({field, 0}, pointer(buffer));
  auto type = cast<MemRefType>(buffer.getType());
  std::optional<unsigned> rows = getRowLayout(type)->strideDim;
  if (!rows)
    return; // 0 stands for the row's length.
  SmallVector<int64_t> strides;
  int64_t offset;
  (void)type.getStridesAndOffset(strides, offset);
  if (ShapedType::isDynamic(strides[*rows]))
    set({field, 1},
        toI64(memref::ExtractStridedMetadataOp::create(rewriter, loc, buffer)
                  .getStrides()[*rows]));
  else
    set({field, 1}, constant(i64, strides[*rows]));
}

void CallBuilder::setVector(ArrayRef<int32_t> field, Value buffer) {
  set(field, pointer(buffer));
}

void CallBuilder::setNorm(int32_t field, Value gamma, const APFloat &epsilon,
                          NormRounding rounding) {
  set({field, 0}, pointer(gamma));
  set({field, 1},
      *getDtype(cast<MemRefType>(gamma.getType()).getElementType()));
  set({field, 2}, rounding == NormRounding::BeforeGamma
                      ? TANDEM_ROUNDING_BEFORE_GAMMA
                      : TANDEM_ROUNDING_AFTER_GAMMA);
  set({field, 3}, LLVM::ConstantOp::create(
                      rewriter, loc, rewriter.getF64Type(),
                      rewriter.getFloatAttr(rewriter.getF64Type(), epsilon)));
}

void CallBuilder::setCommon(LaunchOp launch, Value stream) {
  static_assert(int32_t(NormTokens) == int32_t(ReduceTokens) &&
                int32_t(NormStream) == int32_t(ReduceStream));
  Value input = launch.getInput();
  auto type = cast<MemRefType>(input.getType());
  Value tokens;
  for (int64_t i = 0; i + 1 < type.getRank(); ++i) {
    Value size = dim(input, i);
    tokens =
        tokens ? LLVM::MulOp::create(rewriter, loc, tokens, size) : Value(size);
  }
  set({NormTokens}, tokens ? tokens : constant(i64, 1));
  set({NormHidden},
      type.getRank() == 0 ? constant(i64, 1) : dim(input, type.getRank() - 1));
  set({NormDtype}, *getDtype(type.getElementType()));
  int32_t flags =
      (launch.getFallback() ? TANDEM_CALL_FALLBACK : 0) |
      (launch.getBatchInvariant() ? TANDEM_CALL_BATCH_INVARIANT : 0);
  if (flags != 0)
    set({NormFlags}, flags);
  if (stream)
    set({NormStream}, stream);
}

FailureOr<Value> CallBuilder::call(StringRef name, ArrayRef<Value> arguments,
                                   Type result) {
  auto module = op->getParentOfType<ModuleOp>();
  SmallVector<Type> types = llvm::map_to_vector(
      arguments, [](Value argument) { return argument.getType(); });
  Operation *other = SymbolTable::lookupSymbolIn(module, name);
  if (other && !isa<LLVM::LLVMFuncOp>(other)) {
    other->emitError("@") << name
                          << " is the runtime's, but this is something else";
    return failure();
  }
  FailureOr<LLVM::LLVMFuncOp> callee =
      LLVM::lookupOrCreateFn(rewriter, module, name, types, result);
  if (failed(callee))
    return failure();
  return LLVM::CallOp::create(rewriter, loc, *callee, arguments).getResult();
}

static FailureOr<Value> emitAllReduce(CallBuilder &builder, LaunchOp op,
                                      Value workspace, Value stream) {
  builder.begin(getAllReduceArgsType(op.getContext()),
                sizeof(tandem_all_reduce_args));
  Type i64 = IntegerType::get(op.getContext(), 64);
  builder.set({ReduceStructSize},
              builder.constant(i64, sizeof(tandem_all_reduce_args)));
  builder.setCommon(op, stream);
  builder.setView(ReduceInput, op.getInput());
  builder.setView(ReduceOutput, op.getInits().front());
  builder.set({ReduceReduction}, *getReduction(op.getReduction()));
  return builder.callWithSlot("tandem_all_reduce", workspace);
}

static FailureOr<Value> emitNorm(CallBuilder &builder, LaunchOp op,
                                 Value workspace, Value stream) {
  builder.begin(getNormArgsType(op.getContext()), sizeof(tandem_norm_args));
  Type i64 = IntegerType::get(op.getContext(), 64);
  builder.set({NormStructSize},
              builder.constant(i64, sizeof(tandem_norm_args)));
  builder.setCommon(op, stream);
  builder.setView(NormInput, op.getInput());
  if (op.getResidual())
    builder.setView(NormResidual, op.getResidual());
  if (op.getBias())
    builder.setVector({NormBias}, op.getBias());
  if (op.getPreGamma())
    builder.setNorm(NormPreNorm, op.getPreGamma(), *op.getPreEpsilon(),
                    op.getPreRounding());
  builder.setNorm(NormNorm, op.getGamma(), *op.getEpsilon(), op.getRounding());
  builder.setView(NormNormOut, op.getInits().front());
  if (op.getReturnsResidual())
    builder.setView(NormResidualOut, op.getInits()[1]);
  if (op.getReturnsSum())
    builder.setView(NormSumOut, op.getInits().back());
  StringRef name = op.getCall() == RuntimeCall::FusedAllReduceNorm
                       ? "tandem_fused_all_reduce_norm"
                   : op.getCall() == RuntimeCall::AddRMSNorm
                       ? "tandem_add_rms_norm"
                       : "tandem_rms_norm";
  return builder.callWithSlot(name, workspace);
}

FailureOr<Value> mlir::tandem::emitRuntimeCall(RewriterBase &rewriter,
                                               LaunchOp op, Value workspace,
                                               Value stream) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  CallBuilder builder(rewriter, op);
  return op.getCall() == RuntimeCall::AllReduce
             ? emitAllReduce(builder, op, workspace, stream)
             : emitNorm(builder, op, workspace, stream);
}

FailureOr<Value> mlir::tandem::emitTokenLimitCall(RewriterBase &rewriter,
                                                  TokenLimitOp op,
                                                  Value workspace) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  CallBuilder builder(rewriter, op);
  std::optional<tandem_dtype> dtype = getDtype(op.getElementType());
  // A type that the runtime doesn't know has no fused path.
  if (!dtype)
    return builder.constant(rewriter.getI64Type(), -1);
  return builder.call("tandem_token_limit",
                      {builder.orNull(workspace),
                       builder.constant(rewriter.getI64Type(), op.getHidden()),
                       builder.constant(rewriter.getI32Type(), *dtype)},
                      rewriter.getI64Type());
}
