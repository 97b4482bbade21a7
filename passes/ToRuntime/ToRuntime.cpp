//===- ToRuntime.cpp - Calls of the runtime, and their status -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Dialect/TandemToLLVM.h"
#include "tandem/Passes/Lowering.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMTORUNTIME
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

namespace {
class ToRuntime {
public:
  LogicalResult run(ModuleOp module);

private:
  LogicalResult verify(ModuleOp module);
  void findFunctionsWithStatus(ModuleOp module);
  LogicalResult convert(func::FuncOp function);
  void emitModuleInfo(ModuleOp module);

  func::FuncOp getCallee(func::CallOp call) {
    return symbols.lookupNearestSymbolFrom<func::FuncOp>(call,
                                                         call.getCalleeAttr());
  }

  SymbolTableCollection symbols;
  llvm::SetVector<func::FuncOp> withStatus;
};

/// The status of one function, kept in its stack frame: control flow of any
/// kind may lie between the calls.
class StatusSlot {
public:
  StatusSlot(IRRewriter &rewriter, func::FuncOp function)
      : rewriter(rewriter), type(rewriter.getI32Type()) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(&function.getBody().front());
    Location loc = function.getLoc();
    slot = LLVM::AllocaOp::create(
        rewriter, loc, LLVM::LLVMPointerType::get(rewriter.getContext()), type,
        LLVM::ConstantOp::create(rewriter, loc, rewriter.getI64Type(),
                                 rewriter.getI64IntegerAttr(1)),
        /*alignment=*/4);
    LLVM::StoreOp::create(rewriter, loc, zero(loc), slot);
  }

  /// Notes the status of a call, at the insertion point.
  void record(Location loc, Value status) {
    Value old = load(loc);
    Value failedBefore = LLVM::ICmpOp::create(
        rewriter, loc, LLVM::ICmpPredicate::ne, old, zero(loc));
    Value first =
        LLVM::SelectOp::create(rewriter, loc, failedBefore, old, status);
    LLVM::StoreOp::create(rewriter, loc, first, slot);
  }
  Value load(Location loc) {
    return LLVM::LoadOp::create(rewriter, loc, type, slot);
  }

private:
  Value zero(Location loc) {
    return LLVM::ConstantOp::create(rewriter, loc, type,
                                    rewriter.getI32IntegerAttr(0));
  }

  IRRewriter &rewriter;
  Type type;
  Value slot;
};
} // namespace

/// All calls can be made, seen before anything is changed.
LogicalResult ToRuntime::verify(ModuleOp module) {
  WalkResult result = module.walk([&](Operation *op) {
    bool isRaw = isa<AllReduceOp, AddOp, RMSNormOp, FusedAllReduceNormOp>(op);
    if (isRaw) {
      op->emitOpError("is not on buffers: run one-shot-bufferize first");
      return WalkResult::interrupt();
    }
    auto launch = dyn_cast<LaunchOp>(op);
    auto limit = dyn_cast<TokenLimitOp>(op);
    if (!launch && !limit)
      return WalkResult::advance();
    auto function = op->getParentOfType<FunctionOpInterface>();
    if (!function || !isa<func::FuncOp>(function)) {
      op->emitOpError("is not in a func.func");
      return WalkResult::interrupt();
    }
    if (limit && !limit.getWorkspace()) {
      op->emitOpError("has no workspace: run tandem-materialize-workspaces "
                      "first");
      return WalkResult::interrupt();
    }
    return launch && failed(verifyRuntimeCall(launch)) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void ToRuntime::findFunctionsWithStatus(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  llvm::MapVector<func::FuncOp, SmallVector<func::FuncOp>> callers;
  module.walk([&](func::FuncOp function) {
    if (function.isExternal())
      return;
    bool reaches =
        function.isPublic() || function->hasAttr(shapeFunctionAttrName);
    function.walk([&](Operation *op) {
      reaches |= isa<LaunchOp, cf::AssertOp, memref::AllocOp>(op);
      if (auto call = dyn_cast<func::CallOp>(op))
        if (func::FuncOp callee = getCallee(call))
          callers[callee].push_back(function);
    });
    if (reaches)
      functions.push_back(function);
  });
  while (!functions.empty()) {
    func::FuncOp function = functions.pop_back_val();
    if (withStatus.insert(function))
      llvm::append_range(functions, callers[function]);
  }
}

LogicalResult ToRuntime::convert(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  Type i32 = rewriter.getI32Type();
  Type ptr = LLVM::LLVMPointerType::get(rewriter.getContext());
  auto toPointer = [&](Operation *op, Value handle) -> Value {
    if (!handle)
      return Value();
    rewriter.setInsertionPoint(op);
    return UnrealizedConversionCastOp::create(rewriter, op->getLoc(), ptr,
                                              handle)
        .getResult(0);
  };

  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa<LaunchOp, TokenLimitOp, func::CallOp, func::ReturnOp>(op))
      ops.push_back(op);
  });
  bool addsStatus =
      withStatus.contains(function) && !function->hasAttr(statusAttrName);
  std::optional<StatusSlot> slot;
  if (addsStatus)
    slot.emplace(rewriter, function);

  for (Operation *op : ops) {
    if (auto limit = dyn_cast<TokenLimitOp>(op)) {
      Value workspace = toPointer(op, limit.getWorkspace());
      FailureOr<Value> value = emitTokenLimitCall(rewriter, limit, workspace);
      if (failed(value))
        return failure();
      rewriter.replaceOp(op, *value);
      continue;
    }
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      Value workspace = toPointer(op, launch.getWorkspace());
      Value stream = toPointer(op, launch.getStream());
      FailureOr<Value> status =
          emitRuntimeCall(rewriter, launch, workspace, stream);
      if (failed(status))
        return failure();
      rewriter.setInsertionPoint(op);
      // By this tandem-return-failures knows it.
      status->getDefiningOp()->setAttr(statusAttrName, rewriter.getUnitAttr());
      if (slot)
        slot->record(op->getLoc(), *status);
      rewriter.replaceOp(op, *status);
      continue;
    }
    rewriter.setInsertionPoint(op);
    if (auto call = dyn_cast<func::CallOp>(op)) {
      func::FuncOp callee = getCallee(call);
      if (!callee || !withStatus.contains(callee) ||
          callee->hasAttr(statusAttrName))
        continue;
      SmallVector<Type> types(call.getResultTypes());
      types.push_back(i32);
      OperationState state(call.getLoc(), func::CallOp::getOperationName());
      state.addOperands(call.getOperands());
      state.addTypes(types);
      state.addAttributes(call->getAttrs());
      auto extended = cast<func::CallOp>(rewriter.create(state));
      slot->record(call.getLoc(), extended.getResults().back());
      rewriter.replaceOp(call, extended.getResults().drop_back());
      continue;
    }
    if (auto ret = dyn_cast<func::ReturnOp>(op); ret && slot) {
      Value status = slot->load(ret.getLoc());
      ret.getOperandsMutable().append(status);
    }
  }
  return success();
}

/// Turns the module's attribute into a string that a loaded object shows.
void ToRuntime::emitModuleInfo(ModuleOp module) {
  auto info = module->getAttrOfType<StringAttr>(moduleInfoAttrName);
  if (!info)
    return;
  OpBuilder builder(module.getBodyRegion());
  std::string text = info.getValue().str();
  text.push_back('\0');
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), text.size());
  LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::External, moduleInfoSymbolName,
                         builder.getStringAttr(text));
  module->removeAttr(moduleInfoAttrName);
}

LogicalResult ToRuntime::run(ModuleOp module) {
  if (failed(verify(module)))
    return failure();
  if (module->hasAttr(moduleInfoAttrName))
    if (Operation *other =
            SymbolTable::lookupSymbolIn(module, moduleInfoSymbolName)) {
      other->emitError("the name @")
          << moduleInfoSymbolName << " is needed for the module's description";
      return failure();
    }
  findFunctionsWithStatus(module);
  SmallVector<func::FuncOp> functions;
  module.walk([&](func::FuncOp function) { functions.push_back(function); });
  for (func::FuncOp function : functions)
    if (failed(convert(function)))
      return failure();
  Builder builder(module.getContext());
  // Nothing of this dialect stays, so that others read what comes of it.
  for (func::FuncOp function : functions)
    for (unsigned i = 0, e = function.getNumArguments(); i != e; ++i)
      function.removeArgAttr(i, groupArgAttrName);
  for (func::FuncOp function : withStatus) {
    if (function->hasAttr(statusAttrName))
      continue;
    SmallVector<Type> results(function.getResultTypes());
    results.push_back(builder.getI32Type());
    function.setFunctionType(
        builder.getFunctionType(function.getArgumentTypes(), results));
    if (ArrayAttr attributes = function.getAllResultAttrs()) {
      SmallVector<Attribute> extended(attributes.getValue());
      extended.push_back(builder.getDictionaryAttr({}));
      function.setResAttrsAttr(builder.getArrayAttr(extended));
    }
    function->setAttr(statusAttrName, builder.getUnitAttr());
  }
  emitModuleInfo(module);
  return success();
}

namespace {
struct ToRuntimePass : public tandem::impl::TandemToRuntimeBase<ToRuntimePass> {
  void runOnOperation() override {
    if (failed(ToRuntime().run(getOperation())))
      return signalPassFailure();
    // It is for the way back to ONNX, and holds attributes of the dialect.
    getOperation()->removeAttr(allReduceNodesAttrName);
  }
};
} // namespace
