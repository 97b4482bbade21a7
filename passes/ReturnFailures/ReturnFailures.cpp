//===- ReturnFailures.cpp - Failed checks and allocations -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "Support.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"
#include "tandem/Runtime/tandem.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMRETURNFAILURES
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// No buffer is larger, so that no size in bytes wraps around.
static constexpr double maxBytes = 0x1p62;

namespace {
/// The strings of a module, each once.
class Messages {
public:
  explicit Messages(ModuleOp module) : module(module) {}

  /// Stores `message` where `tandem_module_last_message` finds it, and returns
  /// its address.
  Value emit(OpBuilder &b, Location loc, StringRef message);
  Value getAddress(OpBuilder &b, Location loc, StringRef message);

private:
  LLVM::GlobalOp get(StringRef message);

  ModuleOp module;
  llvm::StringMap<LLVM::GlobalOp> globals;
};

/// One function: from where it fails, it goes to a block that returns.
class FunctionRewriter {
public:
  FunctionRewriter(func::FuncOp function, Messages &messages)
      : function(function), messages(messages), b(function.getContext()) {
    for (BlockArgument argument : function.getArguments())
      if (isa<WorkspaceType>(argument.getType()))
        workspaces.push_back(argument);
  }

  void rewrite(cf::AssertOp check);
  void rewrite(memref::AllocOp alloc);
  /// After a call of a function with a status.
  void rewrite(func::CallOp call);
  /// After a call of the runtime, whose outputs are undefined if it failed.
  void rewrite(LLVM::CallOp call);

private:
  /// Frees all, fails the function's groups, and returns its first argument,
  /// the status. With groups there is a second one, the message or null.
  Block *getFailed();
  /// Says `message` and fails with `status`.
  Block *getFailure(tandem_status status, StringRef message);
  /// Goes on behind `call` if its `status` is 0, and fails with it otherwise.
  /// `getMessage` makes what other groups are told, if there are any.
  void goOnIfWell(Operation *call, Value status,
                  function_ref<Value()> getMessage);
  /// Ends `op`'s block before it: it goes on there if `condition` holds.
  void goOnIf(Value condition, Operation *op, Block *otherwise,
              ValueRange operands = {});
  /// Whether the size in bytes can be had at all; null: it always can.
  Value emitFits(memref::AllocOp alloc);

  func::FuncOp function;
  Messages &messages;
  OpBuilder b;
  SmallVector<Value> workspaces;
  Block *failed = nullptr;
  llvm::StringMap<Block *> failures;
};

class ReturnFailuresPass
    : public tandem::impl::TandemReturnFailuresBase<ReturnFailuresPass> {
  void runOnOperation() override;
};
} // namespace

LLVM::GlobalOp Messages::get(StringRef message) {
  LLVM::GlobalOp &global = globals[message];
  if (global)
    return global;
  std::string name;
  unsigned number = globals.size();
  do
    name = "tandem_module_message_" + std::to_string(number++);
  while (SymbolTable::lookupSymbolIn(module, name));
  OpBuilder b(module.getBodyRegion());
  std::string terminated = message.str() + '\0';
  global = LLVM::GlobalOp::create(
      b, module.getLoc(),
      LLVM::LLVMArrayType::get(b.getI8Type(), terminated.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      b.getStringAttr(terminated));
  return global;
}

Value Messages::getAddress(OpBuilder &b, Location loc, StringRef message) {
  return LLVM::AddressOfOp::create(b, loc, get(message));
}

Value Messages::emit(OpBuilder &b, Location loc, StringRef message) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value place = LLVM::AddressOfOp::create(b, loc, pointer, messageSymbolName);
  Value text = getAddress(b, loc, message);
  LLVM::StoreOp::create(b, loc, text, place);
  return text;
}

Block *FunctionRewriter::getFailed() {
  if (failed)
    return failed;
  OpBuilder::InsertionGuard guard(b);
  Location loc = function.getLoc();
  Type status = b.getI32Type();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  failed =
      b.createBlock(&function.getBody(), function.getBody().end(), status, loc);
  LLVM::CallOp::create(b, loc, TypeRange(), releaseSymbolName, ValueRange());
  // This rank makes no more of its groups' calls, for which its peers may wait.
  if (!workspaces.empty())
    failed->addArgument(pointer, loc);
  for (Value workspace : workspaces) {
    Value handle =
        UnrealizedConversionCastOp::create(b, loc, pointer, workspace)
            .getResult(0);
    LLVM::CallOp::create(
        b, loc, status, failGroupSymbolName,
        {handle, failed->getArgument(0), failed->getArgument(1)});
  }
  // Who gets these looks at the status first.
  SmallVector<Value> results;
  for (Type type : function.getResultTypes().drop_back())
    results.push_back(ub::PoisonOp::create(b, loc, type));
  results.push_back(failed->getArgument(0));
  func::ReturnOp::create(b, loc, results);
  return failed;
}

Block *FunctionRewriter::getFailure(tandem_status status, StringRef message) {
  Block *&block = failures[message];
  if (block)
    return block;
  Block *end = getFailed();
  OpBuilder::InsertionGuard guard(b);
  Location loc = function.getLoc();
  block = b.createBlock(end);
  Value text = messages.emit(b, loc, message);
  SmallVector<Value> operands{
      arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(status))};
  if (!workspaces.empty())
    operands.push_back(text);
  cf::BranchOp::create(b, loc, end, operands);
  return block;
}

void FunctionRewriter::goOnIf(Value condition, Operation *op, Block *otherwise,
                              ValueRange operands) {
  Block *before = op->getBlock();
  Block *after = before->splitBlock(op);
  b.setInsertionPointToEnd(before);
  cf::CondBranchOp::create(b, op->getLoc(), condition, after, ValueRange(),
                           otherwise, operands);
}

void FunctionRewriter::rewrite(cf::AssertOp check) {
  Block *failure = getFailure(TANDEM_STATUS_INVALID_ARGUMENT, check.getMsg());
  goOnIf(check.getArg(), check, failure);
  check.erase();
}

Value FunctionRewriter::emitFits(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  Location loc = alloc.getLoc();
  // No element is larger than 16 bytes.
  double bytes = 16;
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      bytes *= static_cast<double>(size);
  b.setInsertionPoint(alloc);
  if (alloc.getDynamicSizes().empty() && bytes <= maxBytes)
    return Value();
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(value));
  };
  Value product = constant(bytes);
  for (Value size : alloc.getDynamicSizes()) {
    // Less than nothing is a lot.
    Value integer = arith::IndexCastUIOp::create(b, loc, b.getI64Type(), size);
    Value factor = arith::UIToFPOp::create(b, loc, b.getF64Type(), integer);
    product = arith::MulFOp::create(b, loc, product, factor);
  }
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE, product,
                               constant(maxBytes));
}

void FunctionRewriter::rewrite(memref::AllocOp alloc) {
  Block *failure =
      getFailure(TANDEM_STATUS_OUT_OF_MEMORY,
                 "there is not enough memory for a value in between");
  if (Value fits = emitFits(alloc))
    goOnIf(fits, alloc, failure);
  b.setInsertionPointAfter(alloc);
  Location loc = alloc.getLoc();
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, alloc);
  Value null = arith::ConstantIndexOp::create(b, loc, 0);
  auto isThere =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, address, null);
  goOnIf(isThere, isThere->getNextNode(), failure);
}

void FunctionRewriter::goOnIfWell(Operation *call, Value status,
                                  function_ref<Value()> getMessage) {
  Location loc = call->getLoc();
  b.setInsertionPointAfter(call);
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  SmallVector<Value> operands{status};
  if (!workspaces.empty())
    operands.push_back(getMessage());
  auto isWell =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, status, zero);
  goOnIf(isWell, isWell->getNextNode(), getFailed(), operands);
}

void FunctionRewriter::rewrite(func::CallOp call) {
  // If the callee knows more, its groups do.
  goOnIfWell(call, call.getResults().back(), [&]() -> Value {
    return LLVM::ZeroOp::create(b, call.getLoc(),
                                LLVM::LLVMPointerType::get(b.getContext()));
  });
}

void FunctionRewriter::rewrite(LLVM::CallOp call) {
  call->removeAttr(statusAttrName);
  // The call's own group, if it has one, keeps the failure that it has.
  goOnIfWell(call, call.getResult(), [&]() -> Value {
    return messages.getAddress(b, call.getLoc(),
                               "a call in another of its groups failed");
  });
}

void ReturnFailuresPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(addSupport(module)))
    return signalPassFailure();
  Messages messages(module);
  SymbolTableCollection symbols;
  module.walk([&](func::FuncOp function) {
    if (function.isExternal() || !function->hasAttr(statusAttrName))
      return;
    SmallVector<Operation *> ops;
    for (Block &block : function.getBody())
      for (Operation &op : block)
        if (isa<cf::AssertOp, memref::AllocOp, func::CallOp>(op) ||
            (isa<LLVM::CallOp>(op) && op.hasAttr(statusAttrName)))
          ops.push_back(&op);
    FunctionRewriter rewriter(function, messages);
    // From behind, so that splitting a block moves what is up to the next place
    // and not all that is left.
    for (Operation *op : llvm::reverse(ops)) {
      if (auto check = dyn_cast<cf::AssertOp>(op))
        rewriter.rewrite(check);
      else if (auto alloc = dyn_cast<memref::AllocOp>(op))
        rewriter.rewrite(alloc);
      else if (auto foreign = dyn_cast<LLVM::CallOp>(op))
        rewriter.rewrite(foreign);
      else {
        auto call = cast<func::CallOp>(op);
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            call, call.getCalleeAttr());
        if (callee && callee->hasAttr(statusAttrName))
          rewriter.rewrite(call);
      }
    }
  });
}
