//===- LaunchOps.cpp - From the dialect's ops to launches -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SetDestinations.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/LaunchBuilder.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

using namespace mlir;
using namespace mlir::tandem;

Value mlir::tandem::castTo(OpBuilder &builder, Location loc, Value value,
                           Type type) {
  if (value.getType() == type)
    return value;
  return tensor::CastOp::create(builder, loc, type, value);
}

Value mlir::tandem::createEmptyLike(OpBuilder &builder, Location loc,
                                    RankedTensorType type, Value shape) {
  auto known = cast<RankedTensorType>(shape.getType());
  SmallVector<OpFoldResult> sizes;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!type.isDynamicDim(i))
      sizes.push_back(builder.getIndexAttr(type.getDimSize(i)));
    else if (!known.isDynamicDim(i))
      sizes.push_back(builder.getIndexAttr(known.getDimSize(i)));
    else
      sizes.push_back(
          tensor::DimOp::create(builder, loc, shape, i).getResult());
  }
  Value empty =
      tensor::EmptyOp::create(builder, loc, sizes, type.getElementType());
  return castTo(builder, loc, empty, type);
}

static bool isRuntimeType(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

/// Null where it can't be seen.
static GroupAttr getGroupOfWorkspace(Value workspace) {
  auto argument = dyn_cast_if_present<BlockArgument>(workspace);
  if (!argument)
    return GroupAttr();
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function ? function.getArgAttrOfType<GroupAttr>(
                        argument.getArgNumber(), groupArgAttrName)
                  : GroupAttr();
}

/// Whether `value` is a sum over the ranks, or a norm of one.
static bool isFromRanks(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto before = dyn_cast_if_present<RMSNormOp>(op))
    op = before.getInput().getDefiningOp();
  auto launch = dyn_cast_if_present<LaunchOp>(op);
  return isa_and_present<AllReduceOp>(op) || (launch && launch.isCollective());
}

/// Whether the runtime can add and normalise in one call what `norm` is given
/// by `add`.
static bool canPair(AddOp add, RMSNormOp norm) {
  if (add->getBlock() != norm->getBlock())
    return false;
  // The call stands where the norm does, so others may read the sum only
  // behind it.
  return llvm::all_of(add->getUsers(), [&](Operation *user) {
    Operation *inBlock = norm->getBlock()->findAncestorOpInBlock(*user);
    return user == norm || (inBlock && norm->isBeforeInBlock(inBlock));
  });
}

namespace {
class LaunchCreator {
public:
  LaunchCreator(IRRewriter &rewriter, const GroupSet &batchInvariantGroups,
                SmallVectorImpl<InPlaceGuess> &guesses)
      : rewriter(rewriter), batchInvariantGroups(batchInvariantGroups),
        guesses(guesses) {}

  LogicalResult run(func::FuncOp function);

private:
  LogicalResult verify(Operation *op);
  /// Pairs `norm` with the add before it, and that with a norm before it,
  /// which goes into `erased`.
  void createAddNorm(RMSNormOp norm, SmallPtrSetImpl<Operation *> &erased);
  void createPlain(Operation *op);
  void createFused(FusedAllReduceNormOp op);
  /// Creates the launch with `overwritten`, one tensor a result, as its
  /// destinations; null where a new one is to be made.
  LaunchOp create(LaunchBuilder &launch, Location loc, TypeRange types,
                  ArrayRef<Value> overwritten);

  IRRewriter &rewriter;
  const GroupSet &batchInvariantGroups;
  SmallVectorImpl<InPlaceGuess> &guesses;
};
} // namespace

LogicalResult LaunchCreator::verify(Operation *op) {
  if (auto allReduce = dyn_cast<AllReduceOp>(op)) {
    if (!isa<RankedTensorType>(allReduce.getInput().getType()))
      return op->emitOpError("tensors without a rank can't be lowered");
    if (allReduce.getReduction() == ReductionKind::Average)
      return op->emitOpError("the runtime has no reduction average");
  }
  if (!isa<AddOp>(op))
    for (Value operand : op->getOperands()) {
      auto type = dyn_cast<TensorType>(operand.getType());
      if (type && !isRuntimeType(type.getElementType()))
        return op->emitOpError("has element type ")
               << type.getElementType()
               << "; the runtime knows f32, f16 and bf16 only";
    }
  bool needsWorkspace = isa<AllReduceOp, FusedAllReduceNormOp>(op);
  auto allReduce = dyn_cast<AllReduceOp>(op);
  auto fused = dyn_cast<FusedAllReduceNormOp>(op);
  if (needsWorkspace &&
      !(allReduce ? allReduce.getWorkspace() : fused.getWorkspace()))
    return op->emitOpError(
        "has no workspace: run tandem-materialize-workspaces first");
  return success();
}

LaunchOp LaunchCreator::create(LaunchBuilder &launch, Location loc,
                               TypeRange types, ArrayRef<Value> overwritten) {
  // A norm has no such mark of its own; it follows its group's collectives.
  if (launch.call == RuntimeCall::AddRMSNorm ||
      launch.call == RuntimeCall::RMSNorm)
    launch.batchInvariant =
        batchInvariantGroups.contains(getGroupOfWorkspace(launch.workspace));
  launch.inits.clear();
  for (auto [type, value] : llvm::zip_equal(types, overwritten))
    launch.inits.push_back(value ? castTo(rewriter, loc, value, type)
                                 : createEmptyLike(rewriter, loc,
                                                   cast<RankedTensorType>(type),
                                                   launch.input));
  LaunchOp op = launch.create(rewriter, loc);
  for (auto [i, value] : llvm::enumerate(overwritten))
    if (value)
      guesses.push_back({cast<DestinationStyleOpInterface>(op.getOperation()),
                         static_cast<unsigned>(i)});
  return op;
}

void LaunchCreator::createAddNorm(RMSNormOp norm,
                                  SmallPtrSetImpl<Operation *> &erased) {
  auto add = norm.getInput().getDefiningOp<AddOp>();
  if (!add || !canPair(add, norm))
    return;
  LaunchBuilder launch(norm);
  launch.call = RuntimeCall::AddRMSNorm;
  // The input is what comes from the ranks, so that the residual stays where it
  // is from layer to layer.
  launch.input = add.getLhs();
  launch.residual = add.getRhs();
  if (!isFromRanks(launch.input) && isFromRanks(launch.residual))
    std::swap(launch.input, launch.residual);
  auto before = launch.input.getDefiningOp<RMSNormOp>();
  if (before &&
      (!before->hasOneUse() || before->getBlock() != norm->getBlock()))
    before = nullptr;
  if (before) {
    launch.input = before.getInput();
    launch.preGamma = before.getGamma();
    launch.preEpsilon = before.getEpsilonAttr();
    launch.preRounding = before.getRounding();
  }
  launch.returnsResidual = !add->hasOneUse();

  rewriter.setInsertionPoint(norm);
  SmallVector<Type> types{norm.getType()};
  SmallVector<Value> overwritten{launch.input};
  if (launch.returnsResidual) {
    types.push_back(add.getType());
    overwritten.push_back(launch.residual == launch.input ? Value()
                                                          : launch.residual);
  }
  Location loc = rewriter.getFusedLoc({add.getLoc(), norm.getLoc()});
  LaunchOp op = create(launch, loc, types, overwritten);
  rewriter.replaceOp(norm, op.getResult(0));
  if (launch.returnsResidual)
    rewriter.replaceAllUsesWith(add.getResult(), op.getResult(1));
  rewriter.eraseOp(add);
  if (before) {
    erased.insert(before);
    rewriter.eraseOp(before);
  }
}

void LaunchCreator::createFused(FusedAllReduceNormOp op) {
  LaunchBuilder launch(op);
  SmallVector<Value> overwritten{launch.input};
  if (launch.returnsResidual)
    overwritten.push_back(launch.residual == launch.input ? Value()
                                                          : launch.residual);
  if (launch.returnsSum)
    overwritten.push_back(Value());
  // A destination that was chosen by others stays.
  SmallVector<Value> chosen(op.getInits());
  LaunchOp created =
      create(launch, op.getLoc(), op->getResultTypes(), overwritten);
  for (auto [i, init] : llvm::enumerate(chosen)) {
    Value root = init;
    while (auto cast = root.getDefiningOp<tensor::CastOp>())
      root = cast.getSource();
    if (root.getDefiningOp<tensor::EmptyOp>())
      continue;
    rewriter.setInsertionPoint(created);
    created.getInitsMutable()[i].assign(
        castTo(rewriter, op.getLoc(), init, op->getResult(i).getType()));
    llvm::erase_if(guesses, [&, i = i](InPlaceGuess &guess) {
      return guess.op.getOperation() == created.getOperation() &&
             guess.init == i;
    });
  }
  rewriter.replaceOp(op, created);
}

void LaunchCreator::createPlain(Operation *op) {
  if (auto add = dyn_cast<AddOp>(op)) {
    // Over the residual, which then stays where it is, as in a loop.
    Value residual = isFromRanks(add.getLhs()) ? add.getRhs() : add.getLhs();
    Operation *sum = createAdd(rewriter, op->getLoc(), add.getType(),
                               op->getOperands(), residual);
    guesses.push_back({cast<DestinationStyleOpInterface>(sum), 0});
    rewriter.replaceOp(op, sum);
    return;
  }
  LaunchBuilder launch = isa<AllReduceOp>(op)
                             ? LaunchBuilder(cast<AllReduceOp>(op))
                             : LaunchBuilder(cast<RMSNormOp>(op));
  rewriter.replaceOp(
      op, create(launch, op->getLoc(), op->getResultTypes(), launch.input));
}

LogicalResult LaunchCreator::run(func::FuncOp function) {
  SmallVector<Operation *> ops;
  SmallVector<RMSNormOp> norms;
  auto collect = [&] {
    ops.clear();
    function.walk([&](Operation *op) {
      if (isa<AllReduceOp, AddOp, RMSNormOp, FusedAllReduceNormOp>(op))
        ops.push_back(op);
    });
  };
  collect();
  for (Operation *op : ops) {
    if (failed(verify(op)))
      return failure();
    if (auto norm = dyn_cast<RMSNormOp>(op))
      norms.push_back(norm);
  }
  // From behind: the first norm of a sandwich belongs to the second one's add.
  SmallPtrSet<Operation *, 8> erased;
  for (RMSNormOp norm : llvm::reverse(norms))
    if (!erased.contains(norm))
      createAddNorm(norm, erased);
  collect();
  for (Operation *op : ops) {
    rewriter.setInsertionPoint(op);
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
      createFused(fused);
    else
      createPlain(op);
  }
  return success();
}

LogicalResult
mlir::tandem::createLaunches(IRRewriter &rewriter, func::FuncOp function,
                             const GroupSet &batchInvariantGroups,
                             SmallVectorImpl<InPlaceGuess> &guesses) {
  return LaunchCreator(rewriter, batchInvariantGroups, guesses).run(function);
}
