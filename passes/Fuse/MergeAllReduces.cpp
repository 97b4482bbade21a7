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
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Raise.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <variant>

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// One operand of the add, back to its all-reduce.
struct Side {
  AllReduceOpInterface allReduce;
  SmallVector<Operation *, 2> views; ///< from the all-reduce to the add
};

/// Two all-reduces that can be one.
struct Pair {
  AddOp add;
  Side a, b;
  Operation *place; ///< the op after which the one can stand
};

class Merger {
public:
  Merger(RewriterBase &rewriter, MergedAllReduces &result)
      : rewriter(rewriter), result(result) {}

  /// Makes the two all-reduces that `add` adds one, or notes why not.
  void tryToMerge(Operation *add);

private:
  std::variant<Pair, std::string> match(Operation *add, AllReduceOpInterface a,
                                        AllReduceOpInterface b);
  Value getUnreduced(Side &side);
  Operation *merge(Pair &pair);
  SmallVector<Location, 2> takeLocations(Pair &pair);

  RewriterBase &rewriter;
  MergedAllReduces &result;
};
} // namespace

/// Whether only `user`, or a source region that it holds, reads `value`.
static bool isOnlyUsedBy(Value value, Operation *user) {
  return llvm::all_of(value.getUsers(),
                      [&](Operation *op) { return user->isAncestor(op); });
}

/// The side that begins with `value`, an operand of `add`, behind which there
/// is an all-reduce; or what keeps it from being merged.
static std::variant<Side, std::string> getSide(AddOp add, Value value) {
  Side side;
  Operation *user = add;
  while (true) {
    Operation *op = value.getDefiningOp();
    if (op->getBlock() != add->getBlock())
      return "the add stands in another block";
    if (!isOnlyUsedBy(value, user))
      return "one of them is also used elsewhere";
    if (auto allReduce = dyn_cast<AllReduceOpInterface>(op)) {
      side.allReduce = allReduce;
      std::reverse(side.views.begin(), side.views.end());
      // Handles and wishes of the two would have to be one.
      if (auto raised = dyn_cast<AllReduceOp>(op);
          raised && (raised.getWorkspace() || raised.getStream() ||
                     raised.getBatchInvariant()))
        return "one of them has a handle, or batch_invariant, of its own";
      return side;
    }
    side.views.push_back(op);
    user = op;
    value = op->getOperand(0);
  }
}

/// The first op from `first` to `last` that a collective must not pass.
static Operation *findObstacle(Pair &pair, Operation *first, Operation *last) {
  for (Operation *op = first;; op = op->getNextNode()) {
    if (op != pair.a.allReduce && op != pair.b.allReduce &&
        !mayPassCollective(op))
      return op;
    if (op == last)
      return nullptr;
  }
}

std::variant<Pair, std::string> Merger::match(Operation *op,
                                              AllReduceOpInterface first,
                                              AllReduceOpInterface second) {
  auto add = dyn_cast<AddOp>(op);
  if (!add)
    return "the two are not proven to be of one shape";
  if (first == second)
    return "both are the same one";
  if (!isReachable(add->getBlock()))
    return "nothing branches to their block";
  auto a = getSide(add, add.getLhs()), b = getSide(add, add.getRhs());
  for (auto &side : {a, b})
    if (auto *why = std::get_if<std::string>(&side))
      return *why;
  Pair pair{add, std::get<Side>(a), std::get<Side>(b), nullptr};

  // The one stands where the later of the two does, or behind what views and
  // the add read besides, so that third collectives keep their places.
  Operation *earlier = first, *later = second;
  if (later->isBeforeInBlock(earlier))
    std::swap(earlier, later);
  pair.place = later;
  auto reads = [&](Operation *reader) {
    reader->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (!source || source->getBlock() != add->getBlock() ||
            llvm::is_contained(pair.a.views, source) ||
            llvm::is_contained(pair.b.views, source))
          continue;
        if (pair.place->isBeforeInBlock(source))
          pair.place = source;
      }
    });
  };
  for (Side *side : {&pair.a, &pair.b})
    for (Operation *view : side->views)
      reads(view);
  reads(add);
  if (Operation *obstacle = findObstacle(pair, earlier, pair.place))
    return obstacle->getName().getStringRef().str() + " at " +
           getLocationText(obstacle->getLoc()) + " stands between them";
  return pair;
}

/// The side's value before the all-reduce, in the add's shape.
Value Merger::getUnreduced(Side &side) {
  Value value = side.allReduce.getReducedOperand().get();
  for (Operation *view : side.views) {
    IRMapping mapping;
    mapping.map(view->getOperand(0), value);
    value = rewriter.clone(*view, mapping)->getResult(0);
  }
  return value;
}

Operation *Merger::merge(Pair &pair) {
  AddOp add = pair.add;
  rewriter.setInsertionPointAfter(pair.place);
  Location loc = rewriter.getFusedLoc(
      {pair.a.allReduce->getLoc(), pair.b.allReduce->getLoc(), add.getLoc()});
  IRMapping mapping;
  mapping.map(add.getLhs(), getUnreduced(pair.a));
  mapping.map(add.getRhs(), getUnreduced(pair.b));
  auto partial = cast<AddOp>(rewriter.clone(*add, mapping));
  // What the source's add read in another spelling can't be put back.
  bool readsAllReduce = false;
  partial->walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      AllReduceOpInterface behind = getAllReduceBehind(operand);
      readsAllReduce |=
          behind == pair.a.allReduce || behind == pair.b.allReduce;
    }
  });
  if (readsAllReduce)
    dropSource(partial);
  auto merged = AllReduceOp::create(rewriter, loc, partial.getResult(),
                                    ReductionKind::Sum,
                                    pair.a.allReduce.getReductionGroup());
  rewriter.replaceOp(add, merged.getResult());
  for (Side *side : {&pair.a, &pair.b}) {
    for (Operation *view : llvm::reverse(side->views))
      rewriter.eraseOp(view);
    rewriter.eraseOp(side->allReduce);
  }
  return merged;
}

/// The places in the source that the pair's all-reduces stand for, which are
/// about to go.
SmallVector<Location, 2> Merger::takeLocations(Pair &pair) {
  SmallVector<Location, 2> locs;
  for (Side *side : {&pair.a, &pair.b}) {
    auto earlier = result.locations.find(side->allReduce);
    if (earlier == result.locations.end()) {
      locs.push_back(side->allReduce->getLoc());
    } else {
      llvm::append_range(locs, earlier->second);
      result.locations.erase(earlier);
    }
    result.obstacles.erase(side->allReduce);
  }
  return locs;
}

void Merger::tryToMerge(Operation *add) {
  AllReduceOpInterface a = getAllReduceBehind(add->getOperand(0)),
                       b = getAllReduceBehind(add->getOperand(1));
  if (!a || !b || a.isFusionFallback() || b.isFusionFallback() ||
      a.getReductionKind() != ReductionKind::Sum ||
      b.getReductionKind() != ReductionKind::Sum ||
      a.getReductionGroup() != b.getReductionGroup())
    return;
  ShapeAnalysis shapes;
  if (!leadsToNorm(add->getResult(0), a, shapes))
    return;
  auto found = match(add, a, b);
  if (auto *why = std::get_if<std::string>(&found)) {
    result.obstacles.try_emplace(a, *why);
    result.obstacles.try_emplace(b, *why);
    return;
  }
  Pair &pair = std::get<Pair>(found);
  SmallVector<Location, 2> locs = takeLocations(pair);
  result.locations[merge(pair)] = std::move(locs);
}

MergedAllReduces mlir::tandem::mergeAllReduces(RewriterBase &rewriter,
                                               Operation *root) {
  SmallVector<Operation *> adds;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Each function is a root of its own, and what was raised is one op.
    if (op != root && isa<FunctionOpInterface>(op))
      return WalkResult::skip();
    if (isAdd(op))
      adds.push_back(op);
    return hasSourceRegion(op) ? WalkResult::skip() : WalkResult::advance();
  });
  MergedAllReduces result;
  Merger merger(rewriter, result);
  for (Operation *add : adds)
    merger.tryToMerge(add);
  return result;
}
