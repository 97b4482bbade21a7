//===- Checks.cpp - Checks before anything is allocated -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Tandem.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tandem;

/// Collects the ops of `block` that `value` is made of. False if that is more
/// than arithmetic on scalars and sizes.
static bool collectScalars(Value value, Block &block,
                           llvm::SetVector<Operation *> &ops) {
  SmallVector<Value> todo{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!todo.empty()) {
    Value next = todo.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (op->getBlock() != &block || op->getNumRegions() != 0 || !isPure(op))
      return false;
    for (Type type : op->getResultTypes())
      if (isa<ShapedType>(type) && !op->hasTrait<OpTrait::ConstantLike>())
        return false;
    ops.insert(op);
    llvm::append_range(todo, op->getOperands());
  }
  return true;
}

/// Whether `value` is an all-reduce's sum, or the norm of one.
static bool isSum(Value value) {
  if (auto norm = value.getDefiningOp<RMSNormOp>())
    value = norm.getInput();
  return value.getDefiningOp<AllReduceOp>() != nullptr;
}

void mlir::tandem::compile::orderAdds(ModuleOp module) {
  module.walk([](AddOp add) {
    if (isSum(add.getRhs()) && !isSum(add.getLhs())) {
      Value lhs = add.getLhs();
      add.getLhsMutable().assign(add.getRhs());
      add.getRhsMutable().assign(lhs);
    }
  });
}

void mlir::tandem::compile::hoistChecks(ModuleOp module) {
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    Block &block = func.front();
    SmallVector<cf::AssertOp> checks(block.getOps<cf::AssertOp>());
    Operation *place = &block.front();
    for (cf::AssertOp check : checks) {
      llvm::SetVector<Operation *> ops;
      if (!collectScalars(check.getArg(), block, ops))
        continue;
      // In the order in which they stand, which is a valid one.
      SmallVector<Operation *> ordered(ops.begin(), ops.end());
      llvm::sort(ordered, [](Operation *a, Operation *b) {
        return a->isBeforeInBlock(b);
      });
      ordered.push_back(check);
      for (Operation *op : ordered) {
        if (op == place || op->isBeforeInBlock(place)) {
          if (op == place)
            place = op->getNextNode();
          continue;
        }
        op->moveBefore(place);
      }
    }
  }
}

SmallVector<std::string>
mlir::tandem::compile::findDeviceFunctions(ModuleOp module) {
  SmallVector<std::string> names;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!func.isPublic() || func.isExternal())
      continue;
    WalkResult result = func.walk([&](Operation *op) {
      // Without a norm it is a loop on the host.
      if (isa<AddOp>(op) && llvm::none_of(op->getUsers(), [](Operation *user) {
            return isa<RMSNormOp>(user);
          }))
        return WalkResult::interrupt();
      if (op == func.getOperation() || isa<TandemDialect>(op->getDialect()) ||
          isa<scf::IfOp, scf::YieldOp, func::ReturnOp, tensor::DimOp,
              tensor::EmptyOp, tensor::CastOp, cf::AssertOp>(op))
        return WalkResult::advance();
      auto isTensor = [](Type type) { return isa<ShapedType>(type); };
      if (op->getNumRegions() != 0 ||
          llvm::any_of(op->getOperandTypes(), isTensor) ||
          llvm::any_of(op->getResultTypes(), isTensor))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (!result.wasInterrupted())
      names.push_back(func.getName().str());
  }
  return names;
}
