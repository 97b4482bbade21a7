//===- MergeAllReduces.cpp - One all-reduce instead of two ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeAllReduces.h"

#include "Chain.h"
#include "ChainRewriter.h"
#include "Movability.h"

#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::tandem;

/// One operand of the add, back to its all-reduce.
namespace {
struct Side {
  AllReduceOpInterface allReduce;
  SmallVector<Operation *, 2> views; ///< from the all-reduce to the add
};
} // namespace

/// Whether only `user`, or a source region that it holds, reads `value`.
static bool isOnlyUsedBy(Value value, Operation *user) {
  return llvm::all_of(value.getUsers(),
                      [&](Operation *op) { return user->isAncestor(op); });
}

static std::optional<Side> getSide(AddOp add, Value value) {
  Side side;
  Operation *user = add;
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != add->getBlock() || !isOnlyUsedBy(value, user))
      return std::nullopt;
    if (auto allReduce = dyn_cast<AllReduceOpInterface>(op)) {
      side.allReduce = allReduce;
      std::reverse(side.views.begin(), side.views.end());
      // Handles and wishes of the two would have to be one.
      if (auto raised = dyn_cast<AllReduceOp>(op);
          raised && (raised.getWorkspace() || raised.getStream() ||
                     raised.getBatchInvariant()))
        return std::nullopt;
      if (allReduce.isFusionFallback() ||
          allReduce.getReductionKind() != ReductionKind::Sum)
        return std::nullopt;
      return side;
    }
    if (!isView(op))
      return std::nullopt;
    side.views.push_back(op);
    user = op;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

/// Whether both all-reduces may move down to the add.
static bool maySink(Side &a, Side &b, Operation *add) {
  Operation *first = a.allReduce;
  if (b.allReduce->isBeforeInBlock(first))
    first = b.allReduce;
  for (Operation *op = first; op != add; op = op->getNextNode())
    if (op != a.allReduce && op != b.allReduce && !mayPassCollective(op))
      return false;
  return true;
}

/// The side's value before the all-reduce, in the add's shape.
static Value getUnreduced(RewriterBase &rewriter, Side &side) {
  Value value = side.allReduce.getReducedOperand().get();
  for (Operation *view : side.views) {
    IRMapping mapping;
    mapping.map(view->getOperand(0), value);
    value = rewriter.clone(*view, mapping)->getResult(0);
  }
  return value;
}

static Operation *merge(RewriterBase &rewriter, AddOp add, Side &a, Side &b) {
  rewriter.setInsertionPoint(add);
  Location loc = rewriter.getFusedLoc(
      {a.allReduce->getLoc(), b.allReduce->getLoc(), add.getLoc()});
  IRMapping mapping;
  mapping.map(add.getLhs(), getUnreduced(rewriter, a));
  mapping.map(add.getRhs(), getUnreduced(rewriter, b));
  auto partial = cast<AddOp>(rewriter.clone(*add, mapping));
  // What the source's add read in another spelling can't be put back.
  bool readsAllReduce = false;
  partial->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      readsAllReduce |= getAllReduceBehind(operand) == a.allReduce ||
                        getAllReduceBehind(operand) == b.allReduce;
  });
  if (readsAllReduce)
    dropSource(partial);
  auto merged =
      AllReduceOp::create(rewriter, loc, partial.getResult(),
                          ReductionKind::Sum, a.allReduce.getReductionGroup());
  rewriter.replaceOp(add, merged.getResult());
  for (Side *side : {&a, &b}) {
    for (Operation *view : llvm::reverse(side->views))
      rewriter.eraseOp(view);
    rewriter.eraseOp(side->allReduce);
  }
  return merged;
}

llvm::DenseMap<Operation *, SmallVector<Location, 2>>
mlir::tandem::mergeAllReduces(RewriterBase &rewriter, Operation *root) {
  llvm::DenseMap<Operation *, SmallVector<Location, 2>> merged;
  SmallVector<AddOp> adds;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Each function is a root of its own.
    if (op != root && isa<FunctionOpInterface>(op))
      return WalkResult::skip();
    if (auto add = dyn_cast<AddOp>(op))
      adds.push_back(add);
    return WalkResult::advance();
  });
  for (AddOp add : adds) {
    std::optional<Side> a = getSide(add, add.getLhs()),
                        b = getSide(add, add.getRhs());
    if (!a || !b || a->allReduce == b->allReduce ||
        a->allReduce.getReductionGroup() != b->allReduce.getReductionGroup() ||
        !maySink(*a, *b, add))
      continue;
    ShapeAnalysis shapes;
    if (!leadsToNorm(add.getResult(), a->allReduce, shapes))
      continue;
    SmallVector<Location, 2> locs;
    for (Side *side : {&*a, &*b}) {
      auto earlier = merged.find(side->allReduce);
      if (earlier == merged.end())
        locs.push_back(side->allReduce->getLoc());
      else
        llvm::append_range(locs, earlier->second);
    }
    for (Side *side : {&*a, &*b})
      merged.erase(side->allReduce);
    merged[merge(rewriter, add, *a, *b)] = std::move(locs);
  }
  return merged;
}
