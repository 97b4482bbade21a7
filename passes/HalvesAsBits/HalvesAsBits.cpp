//===- HalvesAsBits.cpp - Scalars of f16 and bf16 as 16-bit integers ------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Where a processor has no registers of such a type, code generation carries
// values of it in others and calls functions of the compiler's support library
// for that (__truncsfbf2), which not every such library has. What is only moved
// has no need of the type.
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMHALVESASBITS
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

/// `type` with bits in the place of halves, also inside of literal structs.
static Type toBits(Type type) {
  if (isHalf(type))
    return IntegerType::get(type.getContext(), 16);
  auto aggregate = dyn_cast<LLVM::LLVMStructType>(type);
  if (!aggregate || aggregate.isIdentified())
    return type;
  SmallVector<Type> members;
  for (Type member : aggregate.getBody())
    members.push_back(toBits(member));
  return LLVM::LLVMStructType::getLiteral(type.getContext(), members,
                                          aggregate.isPacked());
}

/// Whether `op` turns halves to and from bits.
static bool isCast(Operation *op) {
  auto cast = dyn_cast<LLVM::BitcastOp>(op);
  return cast && toBits(cast.getArg().getType()) == toBits(cast.getType());
}

namespace {
class HalvesAsBits {
public:
  LogicalResult run(ModuleOp module);

private:
  bool isCarrier(Operation *op);
  LogicalResult collect(LLVM::LLVMFuncOp function);
  void convert(Value value) {
    if (!kept.contains(value))
      value.setType(toBits(value.getType()));
  }

  SymbolTableCollection symbols;
  /// What computes with halves, and what only moves them.
  SmallVector<Operation *> computing, moving;
  SmallVector<LLVM::BitcastOp> casts;
  SmallVector<Block *> blocks;
  /// Values that keep their type.
  llvm::DenseSet<Value> kept;
};

struct HalvesAsBitsPass
    : public tandem::impl::TandemHalvesAsBitsBase<HalvesAsBitsPass> {
  void runOnOperation() override {
    if (failed(HalvesAsBits().run(getOperation())))
      signalPassFailure();
  }
};
} // namespace

/// Whether `op` means the same with bits.
bool HalvesAsBits::isCarrier(Operation *op) {
  if (auto call = dyn_cast<LLVM::CallOp>(op)) {
    FlatSymbolRefAttr name = call.getCalleeAttr();
    if (!name)
      return !call.getVarCalleeType();
    auto callee = symbols.lookupNearestSymbolFrom<LLVM::LLVMFuncOp>(call, name);
    return callee && !callee.isExternal();
  }
  if (auto constant = dyn_cast<LLVM::ConstantOp>(op))
    return isa<FloatAttr>(constant.getValue());
  // Arrays keep their elements' type.
  if (auto extract = dyn_cast<LLVM::ExtractValueOp>(op))
    return !isa<LLVM::LLVMArrayType>(extract.getContainer().getType());
  if (auto insert = dyn_cast<LLVM::InsertValueOp>(op))
    return !isa<LLVM::LLVMArrayType>(insert.getContainer().getType());
  return isa<LLVM::LoadOp, LLVM::StoreOp, LLVM::SelectOp, LLVM::BrOp,
             LLVM::CondBrOp, LLVM::SwitchOp, LLVM::ReturnOp, LLVM::UndefOp,
             LLVM::PoisonOp, LLVM::ZeroOp, LLVM::FreezeOp>(op);
}

LogicalResult HalvesAsBits::collect(LLVM::LLVMFuncOp function) {
  for (Block &block : function.getBody()) {
    blocks.push_back(&block);
    for (Operation &op : block) {
      auto hasHalf = [](TypeRange types) {
        return llvm::any_of(types,
                            [](Type type) { return toBits(type) != type; });
      };
      if (!hasHalf(op.getOperandTypes()) && !hasHalf(op.getResultTypes()))
        continue;
      if (isCast(&op)) {
        casts.push_back(cast<LLVM::BitcastOp>(op));
        continue;
      }
      if (isCarrier(&op)) {
        moving.push_back(&op);
        continue;
      }
      computing.push_back(&op);
      auto isAggregate = [](Type type) {
        return !isHalf(type) && toBits(type) != type;
      };
      if (llvm::any_of(op.getOperandTypes(), isAggregate) ||
          llvm::any_of(op.getResultTypes(), isAggregate))
        return op.emitOpError("takes or gives f16 or bf16 inside of a struct, "
                              "which can't be lowered");
    }
  }
  return success();
}

LogicalResult HalvesAsBits::run(ModuleOp module) {
  SmallVector<LLVM::LLVMFuncOp> functions;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      functions.push_back(function);
  for (LLVM::LLVMFuncOp function : functions)
    if (failed(collect(function)))
      return failure();

  // What computes gets its operands' values in their type, and gives its
  // results' bits. All operands first: they are results of others.
  OpBuilder b(module.getContext());
  for (Operation *op : computing) {
    b.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isHalf(operand.get().getType())) {
        Value half = LLVM::BitcastOp::create(
            b, op->getLoc(), operand.get().getType(), operand.get());
        kept.insert(half);
        operand.set(half);
      }
  }
  for (Operation *op : computing) {
    b.setInsertionPointAfter(op);
    for (OpResult result : op->getResults())
      if (isHalf(result.getType())) {
        auto bits = LLVM::BitcastOp::create(b, op->getLoc(),
                                            b.getIntegerType(16), result);
        result.replaceAllUsesExcept(bits, bits);
        kept.insert(result);
      }
  }

  for (Block *block : blocks)
    for (BlockArgument argument : block->getArguments())
      convert(argument);
  for (Operation *op : moving) {
    for (OpResult result : op->getResults())
      convert(result);
    if (auto constant = dyn_cast<LLVM::ConstantOp>(op)) {
      APInt bits =
          cast<FloatAttr>(constant.getValue()).getValue().bitcastToAPInt();
      constant.setValueAttr(IntegerAttr::get(constant.getType(), bits));
    }
  }
  for (LLVM::BitcastOp cast : casts) {
    cast.replaceAllUsesWith(cast.getArg());
    cast.erase();
  }
  for (LLVM::LLVMFuncOp function : functions) {
    LLVM::LLVMFunctionType type = function.getFunctionType();
    SmallVector<Type> params;
    for (Type param : type.getParams())
      params.push_back(toBits(param));
    function.setFunctionType(LLVM::LLVMFunctionType::get(
        toBits(type.getReturnType()), params, type.isVarArg()));
  }
  return success();
}
