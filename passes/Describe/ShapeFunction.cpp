//===- ShapeFunction.cpp - Sizes of results -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The function is copied, its results are replaced by their sizes, sizes are
// pushed back to where they come from, and what nobody needs any more goes,
// collectives included: nothing but the sizes is wanted of the copy.
//
//===----------------------------------------------------------------------===//

#include "Describe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

using namespace mlir;
using namespace mlir::tandem;

std::string mlir::tandem::getShapeFunctionName(func::FuncOp function) {
  return (function.getSymName() + "_result_shapes").str();
}

namespace {
/// Replaces the sizes of tensors by what they are computed from. Values are met
/// in the order of the program, each once, so that sizes of operands are known.
class SizeResolver {
public:
  explicit SizeResolver(func::FuncOp function) : function(function) {}

  /// Fails where a loop changes the size of what it carries.
  LogicalResult run();

private:
  /// Takes it that what a loop carries keeps its size...
  void assumeInLoop(scf::ForOp loop);
  /// ...and looks at the end of its body whether that is so.
  LogicalResult verifyInLoop(scf::ForOp loop);
  Value get(Value tensor, int64_t dim);
  Value getConstant(int64_t size);
  /// What the branches say of the results' sizes; may replace the op.
  void resolveBranch(scf::IfOp branch);
  /// What an op says of its results' sizes.
  bool reify(Operation *op);

  func::FuncOp function;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> sizes;
  llvm::DenseMap<int64_t, Value> constants;
};
} // namespace

Value SizeResolver::getConstant(int64_t size) {
  Value &constant = constants[size];
  if (!constant) {
    OpBuilder builder(function.getBody());
    constant = arith::ConstantIndexOp::create(builder, function.getLoc(), size);
  }
  return constant;
}

void SizeResolver::resolveBranch(scf::IfOp branch) {
  OpBuilder builder(branch);
  SmallVector<Type> types(branch.getResultTypes());
  SmallVector<Value> fromThen, fromElse;
  // Where the branches don't agree, the number of the result that says it.
  SmallVector<std::pair<std::pair<unsigned, int64_t>, unsigned>> chosen;
  SmallVector<std::pair<std::pair<unsigned, int64_t>, Value>> agreed;
  for (OpResult result : branch.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      continue;
    unsigned number = result.getResultNumber();
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (!type.isDynamicDim(i))
        continue;
      Value ofThen = get(branch.thenYield().getOperand(number), i);
      Value ofElse = get(branch.elseYield().getOperand(number), i);
      if (ofThen == ofElse) {
        agreed.push_back({{number, i}, ofThen});
        continue;
      }
      chosen.push_back({{number, i}, static_cast<unsigned>(types.size())});
      types.push_back(builder.getIndexType());
      fromThen.push_back(ofThen);
      fromElse.push_back(ofElse);
    }
  }
  if (!chosen.empty()) {
    auto extended = scf::IfOp::create(builder, branch.getLoc(), types,
                                      branch.getCondition());
    extended.getThenRegion().takeBody(branch.getThenRegion());
    extended.getElseRegion().takeBody(branch.getElseRegion());
    extended.thenYield().getResultsMutable().append(fromThen);
    extended.elseYield().getResultsMutable().append(fromElse);
    branch->replaceAllUsesWith(
        extended->getResults().take_front(branch->getNumResults()));
    branch.erase();
    branch = extended;
  }
  for (auto &[place, size] : agreed)
    sizes[{branch.getResult(place.first), place.second}] = size;
  for (auto &[place, result] : chosen)
    sizes[{branch.getResult(place.first), place.second}] =
        branch.getResult(result);
}

bool SizeResolver::reify(Operation *op) {
  struct Listener : public OpBuilder::Listener {
    void notifyOperationInserted(Operation *op,
                                 OpBuilder::InsertPoint) override {
      if (auto dim = dyn_cast<tensor::DimOp>(op))
        dims.push_back(dim);
    }
    SmallVector<tensor::DimOp> dims;
  } listener;
  OpBuilder builder(op->getContext(), &listener);
  builder.setInsertionPointAfter(op);
  ReifiedRankedShapedTypeDims shapes;
  if (failed(reifyResultShapes(builder, op, shapes)))
    return false;
  for (auto [result, shape] : llvm::zip(op->getResults(), shapes))
    for (auto [i, size] : llvm::enumerate(shape))
      if (auto value = dyn_cast<Value>(size))
        sizes[{result, i}] = value;
  // Those that were asked of operands in turn.
  for (tensor::DimOp dim : listener.dims) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if (!index)
      continue;
    Value size = get(dim.getSource(), *index);
    for (auto [result, shape] : llvm::zip(op->getResults(), shapes))
      for (size_t i = 0; i < shape.size(); ++i)
        if (Value &known = sizes[{result, i}]; known == dim.getResult())
          known = size;
    dim.replaceAllUsesWith(size);
    dim->erase();
  }
  return true;
}

Value SizeResolver::get(Value tensor, int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return getConstant(type.getDimSize(dim));
  if (Value size = sizes.lookup({tensor, dim}))
    return size;
  if (auto result = dyn_cast<OpResult>(tensor)) {
    if (reify(result.getOwner()))
      if (Value size = sizes.lookup({tensor, dim}))
        return size;
  }
  OpBuilder builder(function.getContext());
  Value index = getConstant(dim);
  builder.setInsertionPointAfterValue(tensor);
  // Constants are made at the very beginning, before this.
  if (isa<BlockArgument>(tensor) &&
      tensor.getParentBlock() == &function.getBody().front())
    builder.setInsertionPointAfterValue(index);
  return sizes[{tensor, dim}] =
             tensor::DimOp::create(builder, tensor.getLoc(), tensor, index);
}

/// The dims of `type` that are not static.
static SmallVector<int64_t> getDynamicDims(Type type) {
  SmallVector<int64_t> dims;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    for (int64_t i = 0; i < tensor.getRank(); ++i)
      if (tensor.isDynamicDim(i))
        dims.push_back(i);
  return dims;
}

void SizeResolver::assumeInLoop(scf::ForOp loop) {
  for (auto [init, carried, result] : llvm::zip_equal(
           loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults()))
    for (int64_t i : getDynamicDims(init.getType()))
      sizes[{carried, i}] = sizes[{result, i}] = get(init, i);
}

LogicalResult SizeResolver::verifyInLoop(scf::ForOp loop) {
  for (auto [carried, yielded] :
       llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()))
    for (int64_t i : getDynamicDims(carried.getType()))
      if (get(yielded, i) != get(carried, i))
        return failure();
  return success();
}

LogicalResult SizeResolver::run() {
  // Loops are met before and after what is in them, other ops after that.
  SmallVector<std::pair<Operation *, bool>> visits;
  function.walk([&](Operation *op, const WalkStage &stage) {
    if (isa<scf::ForOp>(op) && stage.isBeforeAllRegions())
      visits.push_back({op, /*after=*/false});
    if (stage.isAfterAllRegions())
      visits.push_back({op, /*after=*/true});
  });
  for (auto [op, after] : visits) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (!after)
        assumeInLoop(loop);
      else if (failed(verifyInLoop(loop)))
        return failure();
      continue;
    }
    if (auto dim = dyn_cast<tensor::DimOp>(op)) {
      std::optional<int64_t> index = dim.getConstantIndex();
      auto type = dyn_cast<RankedTensorType>(dim.getSource().getType());
      if (!index || !type || *index < 0 || *index >= type.getRank())
        continue;
      dim.replaceAllUsesWith(get(dim.getSource(), *index));
      dim->erase();
      continue;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (branch.elseBlock())
        resolveBranch(branch);
      continue;
    }
    for (Value result : op->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType()))
        for (int64_t i = 0; i < type.getRank(); ++i)
          (void)get(result, i);
  }
  return success();
}

/// Erases what no size depends on. Effects don't count here.
static void eraseUnused(func::FuncOp function) {
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Operation *> ops;
    function.walk<WalkOrder::PreOrder>(
        [&](Operation *op) { ops.push_back(op); });
    // From behind, users come before what they use, and inner ops before the
    // ops that hold them.
    for (Operation *op : llvm::reverse(ops)) {
      if (op == function || op->hasTrait<OpTrait::IsTerminator>() ||
          op->hasAttr(shapeFunctionAttrName) || !op->use_empty())
        continue;
      op->erase();
      changed = true;
    }
  }
}

/// Moves ops that can run anywhere out of branches, so that branches that say
/// the same of a size say it with the same value.
static void hoistFromBranches(func::FuncOp function) {
  function.walk<WalkOrder::PreOrder>([&](scf::IfOp branch) {
    for (Region *region : {&branch.getThenRegion(), &branch.getElseRegion()})
      for (Block &block : *region)
        for (Operation &op :
             llvm::make_early_inc_range(block.without_terminator())) {
          bool isLocal = llvm::any_of(op.getOperands(), [&](Value operand) {
            return branch->isAncestor(operand.getParentBlock()->getParentOp());
          });
          if (!isLocal && op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
              isSpeculatable(&op))
            op.moveBefore(branch);
        }
  });
}

FailureOr<func::FuncOp> mlir::tandem::createShapeFunction(
    func::FuncOp function, function_ref<LogicalResult(func::FuncOp)> simplify) {
  std::string name = getShapeFunctionName(function);
  Operation *table = function->getParentOp();
  if (Operation *other = SymbolTable::lookupSymbolIn(table, name)) {
    other->emitError("the name @") << name << " is needed for the sizes of @"
                                   << function.getSymName() << "'s results";
    return failure();
  }
  auto copy = cast<func::FuncOp>(function->clone());
  copy.setSymName(name);
  copy->setAttr(shapeFunctionAttrName, UnitAttr::get(copy.getContext()));
  function->getBlock()->getOperations().insert(
      std::next(Block::iterator(function)), copy);

  IRRewriter rewriter(copy.getContext());
  Type dimsType =
      MemRefType::get({ShapedType::kDynamic}, rewriter.getIndexType());
  unsigned numArguments = copy.getNumArguments();
  if (failed(copy.insertArgument(numArguments, dimsType,
                                 rewriter.getDictionaryAttr({}),
                                 copy.getLoc())))
    return failure();
  Value dims = copy.getArgument(numArguments);
  SmallVector<func::ReturnOp> returns;
  copy.walk([&](func::ReturnOp op) { returns.push_back(op); });
  for (func::ReturnOp op : returns) {
    rewriter.setInsertionPoint(op);
    int64_t place = 0;
    for (Value value : op.getOperands())
      for (int64_t i = 0; i < cast<RankedTensorType>(value.getType()).getRank();
           ++i) {
        Value size = tensor::DimOp::create(rewriter, op.getLoc(), value, i);
        Value index =
            arith::ConstantIndexOp::create(rewriter, op.getLoc(), place++);
        auto store =
            memref::StoreOp::create(rewriter, op.getLoc(), size, dims, index);
        store->setAttr(shapeFunctionAttrName, rewriter.getUnitAttr());
      }
    op.getOperandsMutable().clear();
  }
  copy.setFunctionType(rewriter.getFunctionType(copy.getArgumentTypes(), {}));
  copy.setResAttrsAttr({});

  // First what is computed twice in two branches is computed once before them,
  // so that branches that agree on a size have the same value for it. What
  // that makes known may help once more.
  for (int i = 0; i < 2; ++i) {
    if (failed(simplify(copy)))
      return failure();
    hoistFromBranches(copy);
    if (failed(simplify(copy)))
      return failure();
    if (failed(SizeResolver(copy).run())) {
      copy.erase();
      return func::FuncOp();
    }
    eraseUnused(copy);
  }
  if (failed(simplify(copy)))
    return failure();
  eraseUnused(copy);

  bool possible = true;
  llvm::BitVector handles(copy.getNumArguments());
  for (BlockArgument argument : copy.getArguments())
    if (isa<WorkspaceType, StreamType>(argument.getType())) {
      handles.set(argument.getArgNumber());
      possible &= argument.use_empty();
    }
  copy.walk([&](Operation *op) {
    possible &=
        !isa<AllReduceOp, FusedAllReduceNormOp, LaunchOp, TokenLimitOp>(op);
    op->removeAttr(op == copy ? "" : shapeFunctionAttrName);
  });
  if (!possible || failed(copy.eraseArguments(handles))) {
    copy.erase();
    return func::FuncOp();
  }
  // It only looks at what the caller passes, whatever the function itself may
  // do.
  for (BlockArgument argument : copy.getArguments())
    if (isa<TensorType>(argument.getType()))
      copy.setArgAttr(argument.getArgNumber(), "bufferization.writable",
                      rewriter.getBoolAttr(false));
  return copy;
}
