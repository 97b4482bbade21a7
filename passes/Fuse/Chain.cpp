//===- Chain.cpp - Chains that can become one op --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Chain.h"

#include "Movability.h"

#include "tandem/OnnxOps/OnnxOps.h"
#include "tandem/Passes/Raise.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/RegionGraphTraits.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DepthFirstIterator.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::tandem;

bool Chain::contains(Operation *op) const {
  return op == allReduce || op == norm || llvm::is_contained(interior, op);
}

StringRef Chain::getPatternName() const {
  if (preNorm)
    return "all_reduce_rms_norm_add_rms_norm";
  return residual ? "all_reduce_add_rms_norm" : "all_reduce_rms_norm";
}

bool mlir::tandem::isAdd(Operation *op) {
  return isa<AddOp>(op) || (isOnnxOp(op, "Add") && op->getNumOperands() == 2 &&
                            op->getNumResults() == 1);
}

/// Whether the op changes nothing, not even the type.
static bool isNoop(Operation *op) { return getNoopCastOperand(op) != nullptr; }

/// Whether the op only changes how leading dimensions are spelled.
static bool isReshaping(Operation *op) {
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ReshapeOp,
          tensor::CastOp>(op))
    return true;
  OnnxNode node(op);
  return node.is("Reshape") || node.is("Flatten") || node.is("Squeeze") ||
         node.is("Unsqueeze");
}

bool mlir::tandem::isView(Operation *op) {
  if (isNoop(op))
    return true;
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 || !isReshaping(op))
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  // With equal last dimensions and as many elements, rows stay rows.
  return from && to && from.getRank() > 0 && to.getRank() > 0 &&
         from.getElementType() == to.getElementType() &&
         !ShapedType::isDynamic(from.getShape().back()) &&
         from.getShape().back() == to.getShape().back();
}

bool mlir::tandem::isReachable(Block *block) {
  if (block->isEntryBlock())
    return true;
  llvm::df_iterator_default_set<Block *, 8> reached;
  for (Block *next :
       llvm::depth_first_ext(&block->getParent()->front(), reached))
    if (next == block)
      return true;
  return false;
}

static bool isSupportedFloat(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

static std::string toString(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

namespace {
/// How far into a chain the search has come.
enum class Stage { Sum, BiasAdded, PreNormed, Added };

/// Searches forward from one all-reduce. Candidates come in order of
/// preference; the first that passes all checks is the chain.
class Matcher {
public:
  Matcher(AllReduceOpInterface allReduce, ShapeAnalysis &shapes)
      : allReduce(allReduce), block(allReduce->getBlock()), shapes(shapes) {}

  std::variant<Chain, Miss> run();
  bool leadsToNorm(Value value);

private:
  /// What one value's users in the block are.
  struct Users {
    SmallVector<Operation *, 4> ops; ///< in order
    Operation *elsewhere = nullptr;  ///< one in another block, if any
  };

  Users getUsers(Value value) const;
  void explore(Value value, Stage stage, const Chain &path, unsigned depth);
  void exploreNorm(RMSNormOpInterface norm, Stage stage, const Chain &path,
                   unsigned depth);
  void exploreAdd(Operation *add, Value value, Stage stage, const Chain &path,
                  unsigned depth);
  void exploreView(Operation *view, Value value, Stage stage, const Chain &path,
                   unsigned depth);
  void reportUnfinished(Value value, Stage stage, const Users &users);
  bool normFollows(Value value) const;
  void miss(Stage stage, MissReason reason, Operation *blocker = nullptr,
            std::string detail = {}, StringRef advice = {});

  std::optional<Miss> check(Chain &chain);
  std::optional<Miss> checkTypes(Chain &chain);
  std::optional<Miss> checkResidual(Chain &chain);
  std::optional<Miss> refineType(Chain &chain);

  AllReduceOpInterface allReduce;
  Block *block;
  ShapeAnalysis &shapes;
  SmallVector<Chain, 2> candidates;
  std::optional<Miss> firstMiss;
  Stage missStage = Stage::Sum;
};
} // namespace

/// Bounds on the search, far above what graphs hold.
static constexpr unsigned maxDepth = 16, maxCandidates = 16, maxVisited = 64;

void Matcher::miss(Stage stage, MissReason reason, Operation *blocker,
                   std::string detail, StringRef advice) {
  // The miss that got furthest says most.
  if (firstMiss && stage <= missStage)
    return;
  firstMiss = Miss{reason, std::move(detail), blocker, advice};
  missStage = stage;
}

Matcher::Users Matcher::getUsers(Value value) const {
  Users users;
  llvm::SmallPtrSet<Operation *, 8> seen;
  for (Operation *user : value.getUsers()) {
    if (user->getBlock() == block) {
      if (seen.insert(user).second)
        users.ops.push_back(user);
      continue;
    }
    Operation *holder = block->findAncestorOpInBlock(*user);
    if (!holder || !hasSourceRegion(holder))
      users.elsewhere = user;
  }
  llvm::sort(users.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return users;
}

/// The other operand of an add.
static OpOperand &getOtherOperand(Operation *add, Value value) {
  return add->getOpOperand(add->getOperand(0) == value ? 1 : 0);
}

/// Whether `vector` is one row: rank 1, or leading dims of size 1, and shorter
/// in rank than what it is added to or equally long.
static bool isRow(Value vector, RankedTensorType type) {
  auto vectorType = dyn_cast<RankedTensorType>(vector.getType());
  if (!vectorType || vectorType.getRank() == 0 ||
      vectorType.getRank() > type.getRank() || vectorType == type ||
      type.getRank() < 2)
    return false;
  return llvm::all_of(vectorType.getShape().drop_back(),
                      [](int64_t dim) { return dim == 1; }) &&
         !ShapedType::isDynamic(vectorType.getShape().back()) &&
         vectorType.getShape().back() == type.getShape().back();
}

AllReduceOpInterface mlir::tandem::getAllReduceBehind(Value value) {
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    Operation *op = value.getDefiningOp();
    if (auto allReduce = dyn_cast_if_present<AllReduceOpInterface>(op))
      return allReduce;
    if (!op || !isView(op))
      break;
    value = op->getOperand(0);
  }
  return nullptr;
}

void Matcher::exploreNorm(RMSNormOpInterface norm, Stage stage,
                          const Chain &path, unsigned depth) {
  if (stage == Stage::PreNormed)
    return;
  if (stage != Stage::Added) {
    // The sandwich first: in it the plain pattern would be a part.
    Chain sandwich = path;
    sandwich.preNorm = norm;
    sandwich.interior.push_back(norm);
    explore(norm.getNormResult(), Stage::PreNormed, sandwich, depth + 1);
  }
  Chain chain = path;
  chain.norm = norm;
  candidates.push_back(std::move(chain));
}

void Matcher::exploreAdd(Operation *add, Value value, Stage stage,
                         const Chain &path, unsigned depth) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  OpOperand &other = getOtherOperand(add, value);
  // Importers give what they know nothing of no tensor type at all. An add
  // behind the residual's is not the chain's.
  for (Value read : {other.get(), Value(add->getResult(0))})
    if (!isa<ShapedType>(read.getType())) {
      if (stage != Stage::Added)
        miss(stage, MissReason::RankUnknown, add,
             read == other.get() ? "the type of what is added is not known"
                                 : "the type of the add's result is not known");
      return;
    }
  for (Value read : {other.get(), Value(add->getResult(0))})
    if (Type elementType = getElementTypeOrSelf(read.getType());
        elementType != type.getElementType())
      return miss(stage, MissReason::TypeChanges, add,
                  toString(type.getElementType()) + " and " +
                      toString(elementType));
  Chain next = path;
  next.interior.push_back(add);
  if (isRow(other.get(), type) &&
      succeeded(verifyCompatibleShape(add->getResult(0).getType(), type))) {
    if (stage == Stage::Sum) {
      next.bias = &other;
      explore(add->getResult(0), Stage::BiasAdded, next, depth + 1);
    } else {
      for (Operation *user : getUsers(add->getResult(0)).ops)
        if (isa<RMSNormOpInterface>(user))
          miss(stage, MissReason::RoundingNotKept, add,
               stage == Stage::Added ? "a bias is added after the residual"
               : stage == Stage::BiasAdded
                   ? "two biases are added"
                   : "a bias is added after the first norm");
    }
    return;
  }
  if (stage == Stage::Added)
    return;
  next.residual = &other;
  explore(add->getResult(0), Stage::Added, next, depth + 1);
}

void Matcher::exploreView(Operation *view, Value value, Stage stage,
                          const Chain &path, unsigned depth) {
  Chain next = path;
  next.interior.push_back(view);
  if (!isNoop(view))
    (stage == Stage::Added ? next.viewsAfter : next.viewsBefore)
        .push_back(view);
  explore(view->getResult(0), stage, next, depth + 1);
}

void Matcher::explore(Value value, Stage stage, const Chain &path,
                      unsigned depth) {
  if (depth > maxDepth || candidates.size() >= maxCandidates)
    return;
  Users users = getUsers(value);
  size_t before = candidates.size();
  // Norms before adds: where the sum is normalised and also the next residual,
  // the norm is the chain's end.
  for (Operation *user : users.ops)
    if (auto norm = dyn_cast<RMSNormOpInterface>(user);
        norm && norm.getNormOperand().get() == value)
      exploreNorm(norm, stage, path, depth);
  for (Operation *user : users.ops) {
    if (isAdd(user))
      exploreAdd(user, value, stage, path, depth);
    else if (user->getNumOperands() > 0 && user->getOperand(0) == value &&
             isView(user))
      exploreView(user, value, stage, path, depth);
  }
  if (candidates.size() == before)
    reportUnfinished(value, stage, users);
}

/// Whether a norm stands behind `value` and any number of adds and views.
bool Matcher::normFollows(Value value) const {
  llvm::SetVector<Operation *> worklist;
  auto pushUsers = [&](Value used) {
    for (Operation *user : getUsers(used).ops)
      worklist.insert(user);
  };
  pushUsers(value);
  // Grows as it is walked.
  for (size_t i = 0; i < worklist.size() && i < maxVisited; ++i) {
    Operation *op = worklist[i];
    if (isa<RMSNormOpInterface>(op))
      return true;
    if (isAdd(op) || isView(op))
      pushUsers(op->getResult(0));
  }
  return false;
}

/// What two all-reduces that are added lack to be one.
static MissReason getAddedReason(AllReduceOpInterface a,
                                 AllReduceOpInterface b) {
  return a.getReductionGroup() == b.getReductionGroup()
             ? MissReason::SumOfAllReduces
             : MissReason::GroupsDiffer;
}

/// Says why nothing was found behind `value`.
void Matcher::reportUnfinished(Value value, Stage stage, const Users &users) {
  // First, as in a residual stream the next layer's add reads the value, too.
  if (std::optional<MatchFailure> failure = explainMissingNorm(value)) {
    // No form of the norm would help where the chain itself can't be fused.
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (type && failure->reason == Mismatch::MixedPrecision &&
        !isSupportedFloat(type.getElementType()))
      return miss(stage, MissReason::TypeUnsupported, failure->blocker,
                  toString(type.getElementType()));
    if (type && failure->reason == Mismatch::GammaShape && type.getRank() > 0 &&
        ShapedType::isDynamic(type.getShape().back()))
      return miss(stage, MissReason::HiddenDynamic, failure->blocker);
    return miss(stage, MissReason::NormNotRecognized, failure->blocker,
                describe(failure->reason).str(), getAdvice(failure->reason));
  }
  for (Operation *user : users.ops) {
    // An add behind this one ends the search; what is behind both decides.
    if (!isAdd(user) || !normFollows(user->getResult(0)))
      continue;
    AllReduceOpInterface other =
        getAllReduceBehind(getOtherOperand(user, value).get());
    if (!other || other == allReduce)
      continue;
    // It says more than that no norm follows the sum directly.
    if (firstMiss && firstMiss->reason == MissReason::NoNormConsumer)
      firstMiss.reset();
    return miss(stage, getAddedReason(allReduce, other), other);
  }
  for (Operation *user : users.ops) {
    OnnxNode node(user);
    if ((node.is("Cast") || node.is("CastLike")) && !isNoop(user))
      return miss(stage, MissReason::TypeChanges, user,
                  toString(value.getType()) + " to " +
                      toString(user->getResult(0).getType()));
    if (user->getNumResults() == 1 && isReshaping(user) && !isView(user))
      return miss(stage, MissReason::ReshapeChangesHidden, user);
  }
  if (users.ops.empty() && users.elsewhere)
    return miss(stage, MissReason::CrossBlock, users.elsewhere);
  if (users.ops.empty())
    return miss(stage, MissReason::NoNormConsumer, nullptr,
                "its result is not used");
  miss(stage, MissReason::NoNormConsumer, users.ops.front());
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

std::optional<Miss> Matcher::checkTypes(Chain &chain) {
  auto inputType =
      dyn_cast<RankedTensorType>(allReduce.getReducedOperand().get().getType());
  Value end = chain.residual
                  ? getOtherOperand(chain.getAdd(), chain.residual->get()).get()
                  : chain.norm.getNormOperand().get();
  // An add of a value to itself has no other operand.
  chain.type = dyn_cast<RankedTensorType>(end.getType());
  if (!inputType || !chain.type || inputType.getRank() == 0)
    return Miss{MissReason::RankUnknown, {}, nullptr};
  if (!isSupportedFloat(inputType.getElementType()))
    return Miss{MissReason::TypeUnsupported,
                toString(inputType.getElementType()), nullptr};
  if (ShapedType::isDynamic(chain.type.getShape().back()))
    return Miss{MissReason::HiddenDynamic, {}, nullptr};
  chain.hidden = chain.type.getShape().back();
  if (chain.hidden == 0)
    return Miss{MissReason::HiddenZero, {}, nullptr};
  for (RMSNormOpInterface norm : {chain.preNorm, chain.norm}) {
    if (!norm)
      continue;
    Type type = getElementTypeOrSelf(norm.getNormGamma().getType());
    if (!isSupportedFloat(type))
      return Miss{MissReason::GammaTypeUnsupported, toString(type), norm};
  }
  chain.staticTokens = getStaticTokenCount(chain.type.getShape());
  // As little is to be computed for rows without elements.
  if (chain.staticTokens == 0 || chain.hidden == 0)
    return Miss{MissReason::ZeroTokens, {}, nullptr};
  chain.rows = end;
  return std::nullopt;
}

std::optional<Miss> Matcher::checkResidual(Chain &chain) {
  if (!chain.residual)
    return std::nullopt;
  Operation *add = chain.getAdd();
  Value sum = getOtherOperand(add, chain.residual->get()).get();
  auto type = dyn_cast<RankedTensorType>(chain.residual->get().getType());
  auto resultType = dyn_cast<RankedTensorType>(add->getResult(0).getType());
  if (!type || !resultType)
    return Miss{MissReason::RankUnknown, "of the residual", add};
  if (type.getRank() != chain.type.getRank() ||
      failed(verifyCompatibleShape(resultType, chain.type)))
    return Miss{MissReason::ResidualShape,
                toString(type) + " is added to " + toString(chain.type), add};
  if (isa<AddOp>(add))
    return std::nullopt;
  for (unsigned i = 0, e = type.getRank(); i != e; ++i) {
    int64_t ours = chain.type.getDimSize(i), theirs = type.getDimSize(i);
    bool isDynamic =
        ShapedType::isDynamic(ours) || ShapedType::isDynamic(theirs);
    if (!isDynamic && ours != theirs)
      return Miss{MissReason::ResidualShape,
                  toString(type) + " is added to " + toString(chain.type), add};
    if (isDynamic &&
        !shapes.provablyEqualDims(sum, i, chain.residual->get(), i))
      chain.comparedDims.push_back(i);
  }
  return std::nullopt;
}

/// Adds to the chain's type what the results of its ops are declared with: all
/// have the rows' shape once the residual has it. What only a declaration knows
/// is checked when it runs, and before the fused op has written it.
std::optional<Miss> Matcher::refineType(Chain &chain) {
  SmallVector<int64_t> shape(chain.type.getShape());
  auto refine = [&](Operation *op) -> std::optional<Miss> {
    auto declared = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!declared || declared.getRank() != chain.type.getRank())
      return std::nullopt;
    for (auto [ours, theirs] : llvm::zip_equal(shape, declared.getShape())) {
      if (ShapedType::isDynamic(theirs) || ours == theirs)
        continue;
      if (!ShapedType::isDynamic(ours))
        return Miss{MissReason::ResidualShape,
                    toString(declared) + " is declared where the rows are " +
                        toString(chain.type.clone(shape)),
                    op};
      ours = theirs;
      chain.declares = op;
    }
    return std::nullopt;
  };
  ArrayRef<Operation *> ops = chain.interior;
  if (!chain.viewsBefore.empty())
    ops = ops.drop_front(llvm::find(ops, chain.viewsBefore.back()) -
                         ops.begin() + 1);
  for (Operation *op : ops) {
    if (llvm::is_contained(chain.viewsAfter, op))
      break;
    if (std::optional<Miss> miss = refine(op))
      return miss;
  }
  if (chain.viewsAfter.empty())
    if (std::optional<Miss> miss = refine(chain.norm))
      return miss;
  if (!chain.declares)
    return std::nullopt;
  chain.type = cast<RankedTensorType>(chain.type.clone(shape));
  chain.staticTokens = getStaticTokenCount(shape);
  if (chain.staticTokens == 0)
    return Miss{MissReason::ZeroTokens, {}, chain.declares};
  return std::nullopt;
}

/// Finds which of the chain's values others need, and which of its ops stay
/// alive for others. What others need must be a result of the fused op: the
/// sum, or the new residual.
static std::optional<Miss>
findReturns(Chain &chain, llvm::SmallPtrSetImpl<Operation *> &kept) {
  Block *block = chain.allReduce->getBlock();
  auto neededBy = [&](Value value) -> Operation * {
    for (Operation *user : value.getUsers()) {
      Operation *holder = block->findAncestorOpInBlock(*user);
      if (!chain.contains(holder) || kept.contains(holder))
        return user;
    }
    return nullptr;
  };
  // The leading views end at the sum; a bias add or a norm comes after it.
  unsigned numLeading = 0;
  chain.sum = chain.allReduce.getReducedResult();
  chain.sumAliases.clear();
  for (Operation *op : chain.interior) {
    if (op == chain.getAdd() || op == chain.preNorm ||
        (chain.bias && op == chain.bias->getOwner()))
      break;
    chain.sum = op->getResult(0);
    ++numLeading;
  }
  for (Operation *op : llvm::reverse(
           ArrayRef<Operation *>(chain.interior).drop_front(numLeading))) {
    if (op == chain.getAdd())
      chain.returnsResidual = neededBy(op->getResult(0));
    else if (neededBy(op->getResult(0)))
      kept.insert(op);
  }
  chain.returnsSum = neededBy(chain.sum);

  // Values before the sum differ from it by a view, which can't be undone.
  bool reshapes = !chain.viewsBefore.empty();
  bool reshapesLater =
      reshapes &&
      !llvm::is_contained(
          ArrayRef<Operation *>(chain.interior).take_front(numLeading),
          chain.viewsBefore.back());
  if (reshapesLater && chain.returnsSum)
    return Miss{MissReason::ReshapedSumUsed, {}, neededBy(chain.sum)};
  // Where only ops that change nothing stand between, they are the same values
  // under another name.
  bool isAlias = true;
  for (unsigned i = numLeading; i-- != 0;) {
    isAlias &= isNoop(chain.interior[i]);
    Value earlier = i == 0 ? chain.allReduce.getReducedResult()
                           : Value(chain.interior[i - 1]->getResult(0));
    Operation *user = neededBy(earlier);
    if (!user)
      continue;
    if (!isAlias || reshapesLater)
      return Miss{MissReason::ReshapedSumUsed, {}, user};
    chain.returnsSum = true;
    chain.sumAliases.push_back(earlier);
  }
  return std::nullopt;
}

/// Calls `callback` with each value that an op or what it holds reads.
static void forEachRead(Operation *op, function_ref<void(Value)> callback) {
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      callback(operand);
  });
}

/// Finds where the fused op goes: behind the all-reduce and all that the fused
/// op reads. The all-reduce so moves down past the ops in between; those that
/// read the chain's values move behind the fused op.
static std::optional<Miss>
findPlace(Chain &chain, const llvm::SmallPtrSetImpl<Operation *> &kept) {
  Block *block = chain.allReduce->getBlock();
  llvm::SmallSetVector<Operation *, 8> read;
  auto reads = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && op->getBlock() == block)
      read.insert(op);
  };
  if (chain.residual)
    reads(chain.residual->get());
  if (chain.bias)
    reads(chain.bias->get());
  if (chain.preNorm)
    reads(chain.preNorm.getNormGamma());
  reads(chain.norm.getNormGamma());
  // Also those that change nothing may read more than what they pass on.
  for (Operation *op : chain.interior)
    if (isView(op))
      for (Value operand : op->getOperands().drop_front())
        reads(operand);

  chain.insertAfter = chain.allReduce;
  chain.movedDown.clear();
  for (Operation *op : read) {
    if (chain.contains(op))
      return Miss{MissReason::ResidualDependsOnSum, {}, op};
    if (chain.insertAfter->isBeforeInBlock(op))
      chain.insertAfter = op;
  }

  llvm::SmallPtrSet<Operation *, 8> dependents;
  Operation *end = chain.insertAfter->getNextNode();
  for (Operation *op = chain.allReduce->getNextNode(); op != end;
       op = op->getNextNode()) {
    if (chain.contains(op)) {
      if (kept.contains(op))
        chain.movedDown.push_back(op);
      continue;
    }
    bool depends = false;
    forEachRead(op, [&](Value value) {
      Operation *producer = value.getDefiningOp();
      depends |= producer &&
                 (chain.contains(producer) || dependents.contains(producer));
    });
    if (depends && read.contains(op))
      return Miss{MissReason::ResidualDependsOnSum, {}, op};
    if (!mayPassCollective(op)) {
      auto other = dyn_cast<AllReduceOpInterface>(op);
      if (other && chain.residual &&
          getAllReduceBehind(chain.residual->get()) == other)
        return Miss{getAddedReason(chain.allReduce, other), {}, op};
      return Miss{MissReason::InterveningSideEffect, {}, op};
    }
    if (depends) {
      dependents.insert(op);
      chain.movedDown.push_back(op);
    }
  }
  return std::nullopt;
}

std::optional<Miss> mlir::tandem::updatePlace(Chain &chain) {
  llvm::SmallPtrSet<Operation *, 4> kept;
  if (std::optional<Miss> miss = findReturns(chain, kept))
    return miss;
  return findPlace(chain, kept);
}

std::optional<Miss> Matcher::check(Chain &chain) {
  if (std::optional<Miss> miss = checkTypes(chain))
    return miss;
  if (chain.residual &&
      chain.getAdd()->getOperand(0) == chain.getAdd()->getOperand(1))
    return Miss{MissReason::ResidualDependsOnSum, {}, chain.getAdd()};
  if (std::optional<Miss> miss = checkResidual(chain))
    return miss;
  if (std::optional<Miss> miss = refineType(chain))
    return miss;
  return updatePlace(chain);
}

std::variant<Chain, Miss> Matcher::run() {
  if (allReduce.getReductionKind() != ReductionKind::Sum)
    return Miss{MissReason::ReductionNotSum,
                stringifyReductionKind(allReduce.getReductionKind()).str(),
                nullptr};
  if (!isa<RankedTensorType>(allReduce.getReducedResult().getType()))
    return Miss{MissReason::RankUnknown, {}, nullptr};
  if (!isReachable(block))
    return Miss{MissReason::Unreachable, {}, nullptr};
  Chain path;
  path.allReduce = allReduce;
  explore(allReduce.getReducedResult(), Stage::Sum, path, /*depth=*/0);
  std::optional<Miss> firstFailure;
  for (Chain &chain : candidates) {
    std::optional<Miss> failure = check(chain);
    if (!failure)
      return std::move(chain);
    if (!firstFailure)
      firstFailure = std::move(failure);
  }
  if (firstFailure)
    return *firstFailure;
  return firstMiss.value_or(Miss{MissReason::NoNormConsumer, {}, nullptr});
}

std::variant<Chain, Miss>
mlir::tandem::matchChain(AllReduceOpInterface allReduce,
                         ShapeAnalysis &shapes) {
  return Matcher(allReduce, shapes).run();
}

void mlir::tandem::countTokens(ArrayRef<Chain *> chains, ShapeAnalysis &shapes,
                               bool inTermsOfArguments) {
  // In most graphs the dims have names, the same for all chains; then nothing
  // has to be worked out.
  bool areEqual = !inTermsOfArguments;
  for (Chain *chain : chains) {
    if (!areEqual)
      break;
    chain->tokens = shapes.getDeclaredTokenCount(chain->rows);
    areEqual = chain->tokens && chain->tokens == chains.front()->tokens;
  }
  if (areEqual)
    return;
  for (Chain *chain : chains)
    chain->tokens = shapes.getTokenCount(chain->rows);
}

bool Matcher::leadsToNorm(Value value) {
  Chain path;
  path.allReduce = allReduce;
  explore(value, Stage::Sum, path, /*depth=*/0);
  return !candidates.empty();
}

bool mlir::tandem::leadsToNorm(Value value, AllReduceOpInterface allReduce,
                               ShapeAnalysis &shapes) {
  return Matcher(allReduce, shapes).leadsToNorm(value);
}
