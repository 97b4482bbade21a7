//===- PlaceResults.cpp - Where results are computed ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SetDestinations.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace mlir::tandem;

void mlir::tandem::dropWrongGuesses(IRRewriter &rewriter,
                                    const OneShotAnalysisState &state,
                                    ArrayRef<InPlaceGuess> guesses) {
  for (const InPlaceGuess &guess : guesses) {
    auto op = guess.op;
    OpOperand &init = *op.getDpsInitOperand(guess.init);
    bool isRight = state.isInPlace(init);
    // Outputs must not overlap.
    for (unsigned i = 0; i < guess.init && isRight; ++i)
      isRight =
          !state.areAliasingBufferizedValues(init.get(), op.getDpsInits()[i]);
    if (isRight)
      continue;
    // The first operand of a launch, and of an add, has the result's shape.
    rewriter.setInsertionPoint(op);
    init.set(createEmptyLike(rewriter, op.getLoc(),
                             cast<RankedTensorType>(init.get().getType()),
                             op->getOperand(0)));
  }
}

namespace {
/// Gives values a place, by going back along destinations to where they begin.
class Placer {
public:
  Placer(IRRewriter &rewriter, const OneShotAnalysisState &state)
      : rewriter(rewriter), state(state) {}

  /// Computes `value` into `place`, a tensor of its shape that nothing else
  /// uses. Returns false, and changes nothing, where that can't be. `within`:
  /// if given, only tensors that are made in this op are replaced.
  bool place(Value value, Value place, Operation *within = nullptr) {
    return visit(value, place, within, /*dryRun=*/true) &&
           visit(value, place, within, /*dryRun=*/false);
  }

  /// The tensor.empty that `value` begins in.
  tensor::EmptyOp findRoot(Value value);

private:
  bool visit(Value value, Value place, Operation *within, bool dryRun);
  /// `place` in the type of `value`.
  Value adapt(Value place, Value value);

  IRRewriter &rewriter;
  const OneShotAnalysisState &state;
  /// What has got a place, and which.
  llvm::DenseMap<Value, Value> placed;
};
} // namespace

static tensor::EmptyOp getEmpty(Value value) {
  while (auto cast = value.getDefiningOp<tensor::CastOp>())
    value = cast.getSource();
  return value.getDefiningOp<tensor::EmptyOp>();
}

Value Placer::adapt(Value place, Value value) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfterValue(place);
  return castTo(rewriter, place.getLoc(), place, value.getType());
}

/// Whether `place` has a static size that `value` may not have. Whoever said
/// that it has is checked when the program runs, maybe after `value` is made:
/// there might be more of it than the place has room for.
static bool knowsMore(Type place, Type value) {
  return llvm::any_of(llvm::zip_equal(cast<RankedTensorType>(place).getShape(),
                                      cast<RankedTensorType>(value).getShape()),
                      [](auto sizes) {
                        auto [ours, theirs] = sizes;
                        return !ShapedType::isDynamic(ours) &&
                               ShapedType::isDynamic(theirs);
                      });
}

bool Placer::visit(Value value, Value place, Operation *within, bool dryRun) {
  if (Value before = placed.lookup(value))
    return before == place;
  auto result = dyn_cast<OpResult>(value);
  if (!result ||
      !tensor::CastOp::areCastCompatible(place.getType(), value.getType()) ||
      knowsMore(place.getType(), value.getType()))
    return false;
  Operation *op = result.getOwner();
  if (within && !within->isAncestor(op))
    return false;
  bool done = false;
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    done = state.isInPlace(cast.getSourceMutable()) &&
           visit(cast.getSource(), place, within, dryRun);
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    unsigned i = result.getResultNumber();
    // What is made before the branch and given back by one side may be alive
    // where the other writes to the place.
    done = visit(branch.thenYield().getOperand(i), place, branch, dryRun) &&
           visit(branch.elseYield().getOperand(i), place, branch, dryRun);
  } else if (auto dps = dyn_cast<DestinationStyleOpInterface>(op)) {
    OpOperand &init = *dps.getTiedOpOperand(result);
    if (getEmpty(init.get())) {
      done = true;
      if (!dryRun)
        init.set(adapt(place, init.get()));
    } else {
      done = state.isInPlace(init) && visit(init.get(), place, within, dryRun);
    }
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    OpOperand *init = loop.getTiedLoopInit(result);
    BlockArgument carried = loop.getTiedLoopRegionIterArg(result);
    Value yielded = loop.getYieldedValues()[result.getResultNumber()];
    if (state.areEquivalentBufferizedValues(carried, yielded)) {
      if (getEmpty(init->get())) {
        done = true;
        if (!dryRun)
          init->set(adapt(place, init->get()));
      } else {
        done =
            state.isInPlace(*init) && visit(init->get(), place, within, dryRun);
      }
    }
  }
  if (done && !dryRun)
    placed[value] = place;
  return done;
}

tensor::EmptyOp Placer::findRoot(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Operation *op = result.getOwner();
    if (auto empty = dyn_cast<tensor::EmptyOp>(op))
      return empty;
    if (auto cast = dyn_cast<tensor::CastOp>(op))
      value = cast.getSource();
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      value = branch.thenYield().getOperand(result.getResultNumber());
    else if (auto dps = dyn_cast<DestinationStyleOpInterface>(op))
      value = dps.getTiedOpOperand(result)->get();
    else
      return nullptr;
  }
  return nullptr;
}

/// Moves what computes `value` before `op`, which it is in, if that is a matter
/// of harmless ops alone.
static bool hoist(IRRewriter &rewriter, Value value, Operation *op) {
  Operation *definition = value.getDefiningOp();
  Block *block = definition ? definition->getBlock()
                            : cast<BlockArgument>(value).getOwner();
  if (!op->isAncestor(block->getParentOp()))
    return true;
  if (!definition || definition->getNumRegions() != 0 ||
      !isMemoryEffectFree(definition) || !isSpeculatable(definition))
    return false;
  for (Value operand : definition->getOperands())
    if (!hoist(rewriter, operand, op))
      return false;
  rewriter.moveOpBefore(definition, op);
  return true;
}

/// One tensor, made before `branch`, for both its sides.
static void shareBetweenBranches(IRRewriter &rewriter, Placer &placer,
                                 scf::IfOp branch) {
  for (OpResult result : branch->getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    tensor::EmptyOp root = placer.findRoot(result);
    if (!root || !llvm::all_of(root.getDynamicSizes(), [&](Value size) {
          return hoist(rewriter, size, branch);
        }))
      continue;
    rewriter.setInsertionPoint(branch);
    Value shared = tensor::EmptyOp::create(
        rewriter, branch.getLoc(), root.getType(), root.getDynamicSizes());
    if (!placer.place(result, shared, branch))
      rewriter.eraseOp(shared.getDefiningOp());
  }
}

void mlir::tandem::placeResults(IRRewriter &rewriter,
                                const OneShotAnalysisState &state,
                                func::FuncOp function) {
  Placer placer(rewriter, state);
  // Several returns may not share a destination; then upstream copies.
  if (function.getBody().hasOneBlock()) {
    Block &entry = function.getBody().front();
    for (auto op :
         llvm::to_vector(entry.getOps<MaterializeInDestinationOp>())) {
      auto buffer = dyn_cast<BlockArgument>(op.getDest());
      if (!buffer || buffer.getOwner() != &entry ||
          !function.getArgAttr(buffer.getArgNumber(), resultArgAttrName))
        continue;
      rewriter.setInsertionPointToStart(&entry);
      auto type = cast<MemRefType>(buffer.getType());
      auto place = ToTensorOp::create(
          rewriter, op.getLoc(),
          RankedTensorType::get(type.getShape(), type.getElementType()), buffer,
          /*restrict=*/true, /*writable=*/true);
      if (!placer.place(op.getSource(), place))
        rewriter.eraseOp(place);
    }
  }
  SmallVector<scf::IfOp> branches;
  function.walk<WalkOrder::PreOrder>([&](scf::IfOp branch) {
    bool launches = false;
    branch.walk([&](LaunchOp) { launches = true; });
    if (launches)
      branches.push_back(branch);
  });
  for (scf::IfOp branch : branches)
    shareBetweenBranches(rewriter, placer, branch);
}
