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
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tandem;

std::string mlir::tandem::getShapeFunctionName(func::FuncOp function) {
  return (function.getSymName() + "_result_shapes").str();
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

namespace {
/// A size of what a loop carries: the loop's number in the function, the
/// carried value's in the loop, and the dimension.
using CarriedSize = std::tuple<unsigned, unsigned, int64_t>;

/// What a while loop passes on from its condition has numbers from here on.
constexpr unsigned firstPassed = 1u << 30;

/// Replaces the sizes of tensors by what they are computed from. Values are met
/// in the order of the program, each once, so that sizes of operands are known.
class SizeResolver {
public:
  /// The sizes in `changing` are carried by their loops, too; other loops are
  /// taken to keep sizes.
  SizeResolver(func::FuncOp function, llvm::DenseSet<CarriedSize> &changing)
      : function(function), changing(changing) {}

  /// Fails where a loop changes a size that is not in `changing`, and adds it.
  LogicalResult run();

private:
  /// Takes it that what a loop carries keeps its size, where it isn't known to
  /// change. Returns the loop, which may be a new one.
  scf::ForOp enterLoop(scf::ForOp loop, unsigned number);
  scf::WhileOp enterLoop(scf::WhileOp loop, unsigned number);
  /// Looks at what a while loop passes to its body and gives back.
  LogicalResult passOn(scf::WhileOp loop, unsigned number);
  /// Looks at the end of its body whether that is so.
  LogicalResult leaveLoop(scf::ForOp loop, unsigned number);
  LogicalResult leaveLoop(scf::WhileOp loop, unsigned number);
  Value get(Value tensor, int64_t dim);
  Value getConstant(int64_t size);
  /// What the branches say of the results' sizes; may replace the op.
  void resolveBranch(scf::IfOp branch);
  void resolveSelect(arith::SelectOp select);
  /// What an op says of its results' sizes.
  bool reify(Operation *op);

  func::FuncOp function;
  llvm::DenseSet<CarriedSize> &changing;
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
  if (op->getNumResults() == 1 && OpTrait::hasElementwiseMappableTraits(op)) {
    // All have one shape; a select's condition may be a scalar.
    Value operand = op->getOperands().back();
    if (!isa<RankedTensorType>(operand.getType()))
      return false;
    for (int64_t i : getDynamicDims(op->getResult(0).getType()))
      sizes[{op->getResult(0), i}] = get(operand, i);
    return true;
  }
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

void SizeResolver::resolveSelect(arith::SelectOp select) {
  OpBuilder builder(select);
  bool isWhole = select.getCondition().getType().isInteger(1);
  for (int64_t i : getDynamicDims(select.getType())) {
    Value ofTrue = get(select.getTrueValue(), i);
    Value ofFalse = get(select.getFalseValue(), i);
    // Elementwise, all three have one shape.
    sizes[{select, i}] =
        ofTrue == ofFalse || !isWhole
            ? ofTrue
            : arith::SelectOp::create(builder, select.getLoc(),
                                      select.getCondition(), ofTrue, ofFalse);
  }
}

scf::ForOp SizeResolver::enterLoop(scf::ForOp loop, unsigned number) {
  SmallVector<CarriedSize> added;
  SmallVector<Value> inits;
  for (auto [k, init] : llvm::enumerate(loop.getInitArgs()))
    for (int64_t i : getDynamicDims(init.getType()))
      if (changing.contains({number, k, i})) {
        added.push_back({number, k, i});
        inits.push_back(get(init, i));
      }
  if (!added.empty()) {
    IRRewriter rewriter(loop);
    unsigned first = loop.getNumResults();
    // Until the body is known, sizes stay as they are.
    auto same = [](OpBuilder &, Location, ArrayRef<BlockArgument> arguments) {
      return SmallVector<Value>(arguments.begin(), arguments.end());
    };
    FailureOr<LoopLikeOpInterface> extended = loop.replaceWithAdditionalYields(
        rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, same);
    assert(succeeded(extended) && "loops can be extended");
    loop = cast<scf::ForOp>(extended->getOperation());
    for (auto [place, size] : llvm::enumerate(added)) {
      auto [ignored, k, i] = size;
      sizes[{loop.getRegionIterArg(k), i}] =
          loop.getRegionIterArg(first + place);
      sizes[{loop.getResult(k), i}] = loop.getResult(first + place);
    }
  }
  for (auto [k, init] : llvm::enumerate(loop.getInitArgs()))
    for (int64_t i : getDynamicDims(init.getType()))
      if (!changing.contains({number, k, i}))
        sizes[{loop.getRegionIterArg(k), i}] = sizes[{loop.getResult(k), i}] =
            get(init, i);
  return loop;
}

LogicalResult SizeResolver::leaveLoop(scf::ForOp loop, unsigned number) {
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  bool isSound = true;
  for (auto [k, carried] : llvm::enumerate(loop.getRegionIterArgs()))
    for (int64_t i : getDynamicDims(carried.getType())) {
      Value before = get(carried, i), after = get(yield.getOperand(k), i);
      if (changing.contains({number, k, i})) {
        unsigned place = cast<BlockArgument>(before).getArgNumber() -
                         loop.getNumInductionVars();
        yield.getResultsMutable()[place].set(after);
      } else if (before != after) {
        changing.insert({number, k, i});
        isSound = false;
      }
    }
  return success(isSound);
}

scf::WhileOp SizeResolver::enterLoop(scf::WhileOp loop, unsigned number) {
  SmallVector<CarriedSize> carried, passed;
  SmallVector<Value> inits(loop.getInits());
  SmallVector<Type> types(loop.getResultTypes());
  OpBuilder builder(loop);
  for (auto [k, init] : llvm::enumerate(loop.getInits()))
    for (int64_t i : getDynamicDims(init.getType()))
      if (changing.contains({number, k, i})) {
        carried.push_back({number, k, i});
        inits.push_back(get(init, i));
      }
  for (auto [k, type] : llvm::enumerate(loop.getResultTypes()))
    for (int64_t i : getDynamicDims(type))
      if (changing.contains({number, firstPassed + k, i})) {
        passed.push_back({number, k, i});
        types.push_back(builder.getIndexType());
      }
  if (!carried.empty() || !passed.empty()) {
    Location loc = loop.getLoc();
    unsigned numResults = loop.getNumResults();
    auto extended = scf::WhileOp::create(builder, loc, types, inits);
    extended.getBefore().takeBody(loop.getBefore());
    extended.getAfter().takeBody(loop.getAfter());
    loop->replaceAllUsesWith(extended->getResults().take_front(numResults));
    loop.erase();
    loop = extended;
    for (auto [ignored, k, i] : carried)
      sizes[{loop.getBeforeArguments()[k], i}] =
          loop.getBeforeBody()->addArgument(builder.getIndexType(), loc);
    for (auto [place, size] : llvm::enumerate(passed)) {
      auto [ignored, k, i] = size;
      sizes[{loop.getAfterArguments()[k], i}] =
          loop.getAfterBody()->addArgument(builder.getIndexType(), loc);
      sizes[{loop.getResult(k), i}] = loop.getResult(numResults + place);
    }
  }
  for (auto [k, init] : llvm::enumerate(loop.getInits()))
    for (int64_t i : getDynamicDims(init.getType()))
      if (!changing.contains({number, k, i}))
        sizes[{loop.getBeforeArguments()[k], i}] = get(init, i);
  return loop;
}

LogicalResult SizeResolver::passOn(scf::WhileOp loop, unsigned number) {
  scf::ConditionOp condition = loop.getConditionOp();
  SmallVector<Value> added;
  bool isSound = true;
  for (auto [k, value] : llvm::enumerate(condition.getArgs()))
    for (int64_t i : getDynamicDims(value.getType())) {
      Value size = get(value, i);
      if (changing.contains({number, firstPassed + k, i})) {
        added.push_back(size);
      } else if (loop->isAncestor(size.getParentBlock()->getParentOp())) {
        changing.insert({number, firstPassed + k, i});
        isSound = false;
      } else {
        sizes[{loop.getAfterArguments()[k], i}] =
            sizes[{loop.getResult(k), i}] = size;
      }
    }
  condition.getArgsMutable().append(added);
  return success(isSound);
}

LogicalResult SizeResolver::leaveLoop(scf::WhileOp loop, unsigned number) {
  scf::YieldOp yield = loop.getYieldOp();
  SmallVector<Value> added;
  bool isSound = true;
  // Those that were added come behind the yielded ones.
  for (auto [k, yielded] : llvm::enumerate(yield.getOperands()))
    for (int64_t i : getDynamicDims(yielded.getType())) {
      Value before = get(loop.getBeforeArguments()[k], i);
      Value after = get(yielded, i);
      if (changing.contains({number, k, i})) {
        added.push_back(after);
      } else if (before != after) {
        changing.insert({number, k, i});
        isSound = false;
      }
    }
  yield.getResultsMutable().append(added);
  return success(isSound);
}

LogicalResult SizeResolver::run() {
  // Loops are met before and after what is in them, other ops after that.
  SmallVector<std::pair<Operation *, bool>> visits;
  function.walk([&](Operation *op, const WalkStage &stage) {
    if (isa<scf::ForOp, scf::WhileOp>(op) && stage.isBeforeAllRegions())
      visits.push_back({op, /*after=*/false});
    if (stage.isAfterAllRegions())
      visits.push_back({op, /*after=*/true});
  });
  // What became of each loop, and its number.
  llvm::DenseMap<Operation *, std::pair<Operation *, unsigned>> loops;
  llvm::DenseMap<Operation *, unsigned> whiles;
  for (auto [op, after] : visits) {
    if (auto known = loops.find(op); known != loops.end()) {
      auto [loop, number] = known->second;
      auto counted = dyn_cast<scf::ForOp>(loop);
      if (failed(counted ? leaveLoop(counted, number)
                         : leaveLoop(cast<scf::WhileOp>(loop), number)))
        return failure();
      continue;
    }
    if (!after) {
      unsigned number = loops.size();
      Operation *loop = nullptr;
      if (auto counted = dyn_cast<scf::ForOp>(op)) {
        loop = enterLoop(counted, number);
      } else {
        loop = enterLoop(cast<scf::WhileOp>(op), number);
        whiles[loop] = number;
      }
      loops[op] = {loop, number};
      continue;
    }
    if (auto condition = dyn_cast<scf::ConditionOp>(op)) {
      auto loop = condition->getParentOfType<scf::WhileOp>();
      if (failed(passOn(loop, whiles.lookup(loop))))
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
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      resolveSelect(select);
      continue;
    }
    for (Value result : op->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType()))
        for (int64_t i = 0; i < type.getRank(); ++i)
          (void)get(result, i);
  }
  return success();
}

/// Replaces the sizes in `function`. A loop is taken to keep sizes until it is
/// seen that it doesn't.
static void resolveSizes(func::FuncOp &function) {
  llvm::DenseSet<CarriedSize> changing;
  while (true) {
    auto attempt = cast<func::FuncOp>(function->clone());
    function->getBlock()->getOperations().insert(Block::iterator(function),
                                                 attempt);
    bool isDone = succeeded(SizeResolver(attempt, changing).run());
    // Each time there is one more of finitely many.
    (isDone ? function : attempt).erase();
    if (isDone) {
      function = attempt;
      return;
    }
  }
}

/// Keeps the checks of sizes and of the elements that say sizes: whoever asks
/// for sizes is told what is wrong with them.
static void keepChecks(func::FuncOp function) {
  Block &body = function.front();
  for (auto check : body.getOps<cf::AssertOp>()) {
    SmallVector<Value> todo{check.getArg()};
    llvm::SmallPtrSet<Operation *, 16> seen;
    bool isSimple = true;
    while (isSimple && !todo.empty()) {
      Operation *op = todo.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op).second)
        continue;
      isSimple = op->getNumRegions() == 0 && isPure(op) &&
                 !isa<TandemDialect>(op->getDialect());
      llvm::append_range(todo, op->getOperands());
    }
    if (isSimple)
      check->setAttr(shapeFunctionAttrName, UnitAttr::get(check.getContext()));
  }
}

/// Whether the workspace's limit has a say in `condition`.
static bool asksForLimit(Value condition) {
  SmallVector<Value> todo{condition};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isa<TokenLimitOp>(op))
      return true;
    if (op->getNumRegions() == 0)
      llvm::append_range(todo, op->getOperands());
  }
  return false;
}

/// Takes the other branch of each guard: both have results of the same sizes,
/// and which one runs is not known where sizes are asked for.
static void takeFallbacks(func::FuncOp function) {
  SmallVector<scf::IfOp> guards;
  function.walk([&](scf::IfOp branch) {
    bool isGuard = branch.elseBlock() &&
                   branch.getElseRegion()
                       .walk([](AllReduceOp op) {
                         return op.getFallback() ? WalkResult::interrupt()
                                                 : WalkResult::advance();
                       })
                       .wasInterrupted();
    if (isGuard && asksForLimit(branch.getCondition()))
      guards.push_back(branch);
  });
  for (scf::IfOp guard : guards) {
    OpBuilder builder(guard);
    guard.getConditionMutable().assign(
        arith::ConstantIntOp::create(builder, guard.getLoc(), 0, 1));
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

/// What is left in a function of sizes that can't be there; null: nothing.
static Operation *findObstacle(func::FuncOp sizes) {
  Operation *obstacle = nullptr;
  sizes.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto isTensor = [](Type type) { return isa<TensorType>(type); };
    bool isMade =
        isa<ub::PoisonOp>(op) && llvm::any_of(op->getResultTypes(), isTensor);
    if (!isMade &&
        !isa<AllReduceOp, FusedAllReduceNormOp, LaunchOp, TokenLimitOp>(op))
      return WalkResult::advance();
    obstacle = op;
    return WalkResult::interrupt();
  });
  return obstacle;
}

/// Says why `function` has no function of sizes; `sizes` is what came of it.
static void explain(func::FuncOp function, func::FuncOp sizes,
                    Operation *obstacle) {
  std::string reason;
  llvm::raw_string_ostream os(reason);
  Location loc = obstacle ? obstacle->getLoc() : function.getLoc();
  Operation *region = obstacle ? obstacle->getParentOp() : nullptr;
  while (isa_and_nonnull<scf::IfOp, scf::ForOp, scf::WhileOp>(region))
    region = region->getParentOp();
  if (region && region != sizes) {
    os << "they come out of a '" << region->getName()
       << "', through which sizes are not followed";
    loc = region->getLoc();
  } else if (!sizes.getBody().hasOneBlock()) {
    os << "there are branches between blocks, along which sizes are not "
          "followed";
    loc = function.getLoc();
  } else if (obstacle && !isa<ub::PoisonOp>(obstacle)) {
    os << "they depend on what a collective brings ('" << obstacle->getName()
       << "')";
  } else {
    os << "they are not followed through all of it";
  }
  emitWarning(loc) << "the sizes of the results of '" << function.getSymName()
                   << "' can't be known before it runs: " << reason
                   << "; its callers have to know them";
  // Without the folder: objects don't depend on where they were made.
  if (auto place = loc->findInstanceOf<FileLineColLoc>())
    os << " at " << llvm::sys::path::filename(place.getFilename().getValue())
       << ":" << place.getLine() << ":" << place.getColumn();
  function->setAttr(noSizesAttrName,
                    StringAttr::get(function.getContext(), reason));
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

  keepChecks(copy);
  takeFallbacks(copy);
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
    resolveSizes(copy);
    eraseUnused(copy);
  }
  if (failed(simplify(copy)))
    return failure();
  eraseUnused(copy);

  Operation *obstacle = findObstacle(copy);
  bool possible = !obstacle;
  llvm::BitVector handles(copy.getNumArguments());
  for (BlockArgument argument : copy.getArguments())
    if (isa<WorkspaceType, StreamType>(argument.getType())) {
      handles.set(argument.getArgNumber());
      possible &= argument.use_empty();
    }
  copy.walk([&](Operation *op) {
    op->removeAttr(op == copy ? "" : shapeFunctionAttrName);
  });
  if (!possible || failed(copy.eraseArguments(handles))) {
    explain(function, copy, obstacle);
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
