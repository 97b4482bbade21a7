//===- EntryPoints.cpp - What a shared object offers ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Runtime/tandem.h"

using namespace mlir;
using namespace mlir::tandem;

static constexpr StringLiteral cInterfacePrefix = "_mlir_ciface_";

/// A constant zero-terminated string that `b` puts at its place.
static LLVM::GlobalOp makeString(OpBuilder &b, Location loc, StringRef name,
                                 StringRef text, LLVM::Linkage linkage) {
  std::string terminated = text.str() + '\0';
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), terminated.size());
  return LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage,
                                name, b.getStringAttr(terminated));
}

/// `tandem_packed_NAME(void **arguments)`: calls `target` with what the
/// addresses in `arguments` hold.
static void makePacked(OpBuilder &b, LLVM::LLVMFuncOp target, StringRef name) {
  Location loc = target.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i32 = b.getI32Type();
  auto packed = LLVM::LLVMFuncOp::create(
      b, loc, ("tandem_packed_" + name).str(),
      LLVM::LLVMFunctionType::get(i32, {pointer}), LLVM::Linkage::External);
  OpBuilder::InsertionGuard guard(b);
  Block *entry = packed.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  SmallVector<Value> arguments;
  LLVM::LLVMFunctionType type = target.getFunctionType();
  for (auto [index, argument] : llvm::enumerate(type.getParams())) {
    Value slot = LLVM::GEPOp::create(
        b, loc, pointer, pointer, entry->getArgument(0),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    Value address = LLVM::LoadOp::create(b, loc, pointer, slot);
    if (argument.isInteger(1)) {
      // A byte in memory.
      Value byte = LLVM::LoadOp::create(b, loc, b.getI8Type(), address);
      arguments.push_back(LLVM::TruncOp::create(b, loc, argument, byte));
    } else {
      arguments.push_back(LLVM::LoadOp::create(b, loc, argument, address));
    }
  }
  auto call = LLVM::CallOp::create(b, loc, target, arguments);
  Value status;
  if (call.getNumResults() == 1 && call.getResult().getType() == i32)
    status = call.getResult();
  else
    status = LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(0));
  LLVM::ReturnOp::create(b, loc, status);
}

/// Whether `func`, or what it calls in this module, takes memory.
static bool allocates(LLVM::LLVMFuncOp func,
                      llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (!seen.insert(func).second)
    return false;
  return func
      .walk([&](LLVM::CallOp call) {
        std::optional<StringRef> callee = call.getCallee();
        if (!callee || *callee == "malloc" || *callee == "aligned_alloc")
          return WalkResult::interrupt();
        auto target =
            func->getParentOfType<ModuleOp>().lookupSymbol<LLVM::LLVMFuncOp>(
                *callee);
        if (target && !target.isExternal() && allocates(target, seen))
          return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult
mlir::tandem::compile::addEntryPoints(ModuleOp module,
                                      ArrayRef<std::string> deviceFunctions) {
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  Location loc = module.getLoc();
  StringRef onDeviceName = "tandem_module_device_functions";
  if (Operation *taken = module.lookupSymbol(onDeviceName))
    return emitError(taken->getLoc())
           << "the name '" << onDeviceName << "' is used by compiled modules";

  SmallVector<LLVM::LLVMFuncOp> functions(module.getOps<LLVM::LLVMFuncOp>());
  std::string onDevice;
  for (LLVM::LLVMFuncOp func : functions) {
    // The lowering's own are as they should be.
    if (func.getName().starts_with("tandem_module_") ||
        func.getName().starts_with("_mlir_memref_to_llvm_"))
      continue;
    // What was known of arguments has been used; LLVM IR can't hold it.
    func.removeArgAttrsAttr();
    func.removeResAttrsAttr();
    if (func.isExternal())
      continue;
    StringRef name = func.getName();
    if (!name.consume_front(cInterfacePrefix)) {
      func.setLinkage(LLVM::Linkage::Internal);
      continue;
    }
    makePacked(b, func, name);
    llvm::SmallPtrSet<Operation *, 8> seen;
    if (llvm::is_contained(deviceFunctions, name) && !allocates(func, seen))
      onDevice += (onDevice.empty() ? "" : "\n") + name.str();
  }
  makeString(b, loc, onDeviceName, onDevice, LLVM::Linkage::External);
  return success();
}
