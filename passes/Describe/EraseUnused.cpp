//===- EraseUnused.cpp - What no size depends on --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A collective in a loop or branch has to go from a function of sizes though
// the loop stays for a size that it carries. So what is needed is followed
// value by value through structured control flow.
//
//===----------------------------------------------------------------------===//

#include "Describe.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "tandem/Passes/Lowering.h"

using namespace mlir;
using namespace mlir::tandem;

/// Whether what `op` yields and carries is followed value by value.
static bool isFollowed(Operation *op) {
  return isa<scf::IfOp, scf::ForOp, scf::WhileOp>(op);
}

/// Whether `op` hands values on to where they are followed.
static bool isHandingOn(Operation *op) {
  return isa<scf::YieldOp, scf::ConditionOp>(op) &&
         isFollowed(op->getParentOp());
}

namespace {
class Needs {
public:
  explicit Needs(func::FuncOp function) : function(function) {}

  void collect();
  /// Replaces what is handed on and not needed, and erases the rest.
  void eraseOthers();

private:
  void need(Value value) {
    if (values.insert(value).second)
      todo.push_back(value);
  }
  void need(Operation *op);
  void follow(Value value);
  /// `value` goes into `place`, which is not needed.
  void cut(OpOperand &place);
  void cutUnneeded(Operation *op);

  func::FuncOp function;
  llvm::DenseSet<Operation *> ops;
  llvm::DenseSet<Value> values;
  SmallVector<Value> todo;
};
} // namespace

void Needs::need(Operation *op) {
  SmallVector<Operation *> pending{op};
  while (!pending.empty()) {
    Operation *next = pending.pop_back_val();
    if (next == function || !ops.insert(next).second)
      continue;
    pending.push_back(next->getParentOp());
    if (auto branch = dyn_cast<scf::IfOp>(next)) {
      need(branch.getCondition());
    } else if (auto loop = dyn_cast<scf::ForOp>(next)) {
      need(loop.getLowerBound());
      need(loop.getUpperBound());
      need(loop.getStep());
    } else if (auto loop = dyn_cast<scf::WhileOp>(next)) {
      need(loop.getConditionOp().getCondition());
    } else if (auto branch = dyn_cast<BranchOpInterface>(next)) {
      for (OpOperand &operand : next->getOpOperands())
        if (!branch.getSuccessorBlockArgument(operand.getOperandNumber()))
          need(operand.get());
    } else if (!isHandingOn(next)) {
      // The whole of what is not followed.
      next->walk([&](Operation *inner) {
        ops.insert(inner);
        for (Value operand : inner->getOperands())
          need(operand);
      });
    }
  }
}

void Needs::follow(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  Operation *op =
      argument ? argument.getOwner()->getParentOp() : value.getDefiningOp();
  need(op);
  if (argument && op == function) {
    for (auto it = argument.getOwner()->pred_begin(),
              end = argument.getOwner()->pred_end();
         it != end; ++it)
      if (auto branch = dyn_cast<BranchOpInterface>((*it)->getTerminator()))
        if (Value passed = branch.getSuccessorOperands(
                it.getSuccessorIndex())[argument.getArgNumber()])
          need(passed);
    return;
  }
  unsigned number = argument ? argument.getArgNumber()
                             : cast<OpResult>(value).getResultNumber();
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    need(branch.thenYield().getOperand(number));
    need(branch.elseYield().getOperand(number));
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (argument && number < loop.getNumInductionVars())
      return;
    if (argument)
      number -= loop.getNumInductionVars();
    need(loop.getInitArgs()[number]);
    need(loop.getRegionIterArg(number));
    need(loop.getYieldedValues()[number]);
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    if (argument && argument.getOwner() == loop.getBeforeBody()) {
      need(loop.getInits()[number]);
      need(loop.getYieldOp().getOperand(number));
    } else {
      need(loop.getConditionOp().getArgs()[number]);
    }
  }
}

void Needs::collect() {
  // Which of its blocks run is not followed.
  for (Block &block : function.getBody())
    need(block.getTerminator());
  function.walk([&](Operation *op) {
    if (op->hasAttr(shapeFunctionAttrName) && op != function)
      need(op);
  });
  while (!todo.empty())
    follow(todo.pop_back_val());
}

void Needs::cut(OpOperand &place) {
  Operation *definition = place.get().getDefiningOp();
  if (!definition || ops.contains(definition) || isa<ub::PoisonOp>(definition))
    return;
  OpBuilder builder(place.getOwner());
  place.set(ub::PoisonOp::create(builder, place.getOwner()->getLoc(),
                                 place.get().getType()));
}

void Needs::cutUnneeded(Operation *op) {
  if (auto branch = dyn_cast<BranchOpInterface>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      if (auto argument =
              branch.getSuccessorBlockArgument(operand.getOperandNumber());
          argument && !values.contains(*argument))
        cut(operand);
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (OpResult result : branch.getResults())
      if (!values.contains(result)) {
        unsigned number = result.getResultNumber();
        cut(branch.thenYield()->getOpOperand(number));
        cut(branch.elseYield()->getOpOperand(number));
      }
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [k, carried] : llvm::enumerate(loop.getRegionIterArgs()))
      if (!values.contains(carried) && !values.contains(loop.getResult(k))) {
        // Folding drops what stays as it is.
        loop.getYieldedValuesMutable().value()[k].set(carried);
        cut(loop.getInitsMutable()[k]);
      }
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    for (BlockArgument carried : loop.getBeforeArguments())
      if (!values.contains(carried)) {
        unsigned number = carried.getArgNumber();
        cut(loop->getOpOperand(number));
        cut(loop.getYieldOp()->getOpOperand(number));
      }
    for (OpResult result : loop.getResults()) {
      unsigned number = result.getResultNumber();
      if (!values.contains(result) &&
          !values.contains(loop.getAfterArguments()[number]))
        cut(loop.getConditionOp().getArgsMutable()[number]);
    }
  }
}

void Needs::eraseOthers() {
  SmallVector<Operation *> needed(ops.begin(), ops.end());
  // Handing on is needed with what it belongs to.
  function.walk([&](Operation *op) {
    if (isHandingOn(op) && ops.contains(op->getParentOp()))
      ops.insert(op);
  });
  for (Operation *op : needed)
    cutUnneeded(op);
  SmallVector<Operation *> others;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == function || ops.contains(op) || isa<ub::PoisonOp>(op))
      return WalkResult::advance();
    others.push_back(op);
    return WalkResult::skip();
  });
  for (Operation *op : others)
    op->dropAllUses();
  for (Operation *op : llvm::reverse(others))
    op->erase();
  function.walk([](ub::PoisonOp op) {
    if (op.use_empty())
      op.erase();
  });
}

void mlir::tandem::eraseUnused(func::FuncOp function) {
  Needs needs(function);
  needs.collect();
  needs.eraseOthers();
}
