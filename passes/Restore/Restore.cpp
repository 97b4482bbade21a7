//===- Restore.cpp - The pass tandem-restore ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A raised op is taken apart in three steps: uses of its results go to the
// values that its source region yields, what raising made around it goes, and
// the ops in the region move out. They move to where they stood if the block
// still is as raising left it: then the op that the raised op stands for falls
// on the raised op's own place, and all others between the ops they stood
// between. In a block that has changed they move to the raised op's place,
// which is always valid, and from there up by as many ops as stood between,
// as far as what they use allows: where only other places have changed, this
// is their old order, too.
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Restore.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/OnnxOps.h"
#include "tandem/Passes/Raise.h"
#include "llvm/ADT/MapVector.h"

#include <limits>

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// A raised op, and where the ops in its region stood.
struct Raised {
  explicit Raised(Operation *op) : op(op) {
    if (auto attr = op->getAttrOfType<DenseI64ArrayAttr>("source_positions"))
      positions = attr.asArrayRef();
    for (Operation &source : op->getRegion(0).front().without_terminator())
      sources.push_back(&source);
    yielded =
        cast<YieldOp>(op->getRegion(0).front().getTerminator()).getValues();
  }

  /// The source op in whose place the raised op stands: of an all-reduce the
  /// one that starts to communicate, of others the last.
  Operation *getAnchor() const {
    if (sources.empty())
      return nullptr;
    return isa<AllReduceOp>(op) ? sources.front() : sources.back();
  }

  Operation *op;
  SmallVector<Operation *, 12> sources;
  ArrayRef<int64_t> positions;
  SmallVector<Value, 2> yielded;
};

/// Restores the raised ops of one block.
class BlockRestorer {
public:
  explicit BlockRestorer(Block *block) : block(block) {}

  void add(Operation *op) { raised.emplace_back(op); }
  void detachOperands();
  void replaceResults();
  void moveSources();
  void finish();

private:
  void replaceSum(Raised &entry);
  bool comesBeforeUsers(Operation *op, Value value);
  /// Moves all sources to where they stood, if that can be.
  bool merge();
  void inlineSources();
  /// Moves the sources of raised op number `index` up to where they stood in
  /// front of it. `places` has the position of every source, in order, and the
  /// number of its raised op.
  void spread(size_t index, ArrayRef<std::pair<int64_t, size_t>> places);
  /// Whether the sources stand after what they use and before their users.
  bool isOrdered();

  Block *block;
  std::vector<Raised> raised;
  /// Results that still have uses, of another type than the source value.
  SmallVector<std::pair<Value, Value>> casts;
};
} // namespace

/// Whether raising made the op, given that it feeds a raised op. `adds` says
/// whether it may be the sum with a bias.
static bool isMadeUp(Operation *op, bool adds) {
  if (isa<UnrealizedConversionCastOp, tensor::CollapseShapeOp>(op))
    return true;
  if (auto add = dyn_cast<AddOp>(op))
    return add.getSource().empty();
  return adds && isOnnxOp(op, "Add");
}

static void eraseDeadMadeUp(Value value, bool adds) {
  SmallVector<Value> worklist = {value};
  while (!worklist.empty()) {
    Operation *def = worklist.pop_back_val().getDefiningOp();
    if (!def || !def->use_empty() || !isMadeUp(def, adds))
      continue;
    SmallVector<Value> operands(def->getOperands());
    def->erase();
    // The same op may define several operands, and must not be met twice.
    for (auto [i, operand] : llvm::enumerate(operands))
      if (!llvm::is_contained(ArrayRef(operands).take_front(i), operand))
        worklist.push_back(operand);
  }
}

/// Whether the source is one node that adds before it normalises, maybe with
/// casts that change nothing in front.
static bool isSkipNorm(const Raised &entry) {
  return !entry.sources.empty() &&
         OnnxNode(entry.sources.back())
             .is("SkipSimplifiedLayerNormalization", "com.microsoft");
}

bool BlockRestorer::comesBeforeUsers(Operation *op, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    Operation *inBlock = block->findAncestorOpInBlock(*user);
    // Another block comes after all of this one.
    return !inBlock || inBlock == op || op->isBeforeInBlock(inBlock);
  });
}

/// Hands the users of a sum that raising made to the source's own result.
void BlockRestorer::replaceSum(Raised &entry) {
  Value sum = entry.op->getOperand(0);
  Operation *def = sum.getDefiningOp();
  if (!def || !isMadeUp(def, /*adds=*/true) || !comesBeforeUsers(entry.op, sum))
    return;
  Value source = entry.yielded[1];
  for (OpOperand &use : llvm::make_early_inc_range(sum.getUses())) {
    if (use.getOwner() == entry.op)
      continue;
    if (source.getType() == sum.getType()) {
      use.set(source);
      continue;
    }
    auto cast = dyn_cast<UnrealizedConversionCastOp>(use.getOwner());
    if (!cast || cast->getNumResults() != 1 ||
        cast.getResult(0).getType() != source.getType())
      continue;
    cast.getResult(0).replaceAllUsesWith(source);
    cast.erase();
  }
}

void BlockRestorer::detachOperands() {
  for (Raised &entry : raised) {
    if (entry.yielded.size() == 2)
      replaceSum(entry);
    SmallVector<Value> operands(entry.op->getOperands());
    entry.op->setOperands({});
    bool adds = isSkipNorm(entry);
    for (auto [i, operand] : llvm::enumerate(operands))
      if (!llvm::is_contained(ArrayRef(operands).take_front(i), operand))
        eraseDeadMadeUp(operand, adds);
  }
}

void BlockRestorer::replaceResults() {
  for (Raised &entry : raised) {
    Value result = entry.op->getResult(0), source = entry.yielded[0];
    if (result.getType() == source.getType()) {
      result.replaceAllUsesWith(source);
      continue;
    }
    for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
      auto cast = dyn_cast<UnrealizedConversionCastOp>(user);
      if (!cast || cast->getNumResults() != 1 ||
          cast.getResult(0).getType() != source.getType())
        continue;
      cast.getResult(0).replaceAllUsesWith(source);
      cast.erase();
    }
    if (!result.use_empty())
      casts.push_back({result, source});
  }
}

bool BlockRestorer::merge() {
  /// A source op, the position it had, and the number of ops that stay in
  /// front of it if it is an anchor.
  struct Place {
    Operation *source;
    int64_t position;
    int64_t keptBefore;
  };
  SmallVector<Place> places;
  SmallVector<Operation *> kept;
  auto next = raised.begin();
  for (Operation &op : *block) {
    if (next == raised.end() || &op != next->op) {
      kept.push_back(&op);
      continue;
    }
    if (next->positions.size() != next->sources.size())
      return false;
    for (auto [source, position] :
         llvm::zip_equal(next->sources, next->positions))
      places.push_back({source, position,
                        source == next->getAnchor()
                            ? static_cast<int64_t>(kept.size())
                            : -1});
    ++next;
  }
  llvm::sort(places, [](const Place &a, const Place &b) {
    return a.position < b.position;
  });
  // Source op number i stood behind `position - i` ops that stay.
  int64_t keptCount = kept.size();
  bool hasTerminator = block->mightHaveTerminator();
  for (auto [i, place] : llvm::enumerate(places)) {
    int64_t before = place.position - static_cast<int64_t>(i);
    if (before < 0 || before > keptCount - hasTerminator ||
        (place.keptBefore != -1 && place.keptBefore != before) ||
        (i != 0 && places[i - 1].position == place.position))
      return false;
  }
  for (auto [i, place] : llvm::enumerate(places)) {
    int64_t before = place.position - static_cast<int64_t>(i);
    if (before == keptCount)
      place.source->moveBefore(block, block->end());
    else
      place.source->moveBefore(kept[before]);
  }
  return true;
}

bool BlockRestorer::isOrdered() {
  for (Raised &entry : raised)
    for (Operation *source : entry.sources) {
      for (Value operand : source->getOperands())
        if (Operation *def = operand.getDefiningOp();
            def && def->getBlock() == block && !def->isBeforeInBlock(source))
          return false;
      for (Value result : source->getResults())
        if (!comesBeforeUsers(source, result))
          return false;
    }
  return true;
}

/// A norm's ops stand close to each other, so this is enough, and it bounds
/// the time that positions from elsewhere can cost.
static constexpr int64_t kMaxSpread = 256;

void BlockRestorer::spread(size_t index,
                           ArrayRef<std::pair<int64_t, size_t>> places) {
  Raised &entry = raised[index];
  ArrayRef<Operation *> sources = entry.sources;
  if (entry.positions.size() != sources.size() || sources.size() < 2 ||
      entry.getAnchor() != sources.back())
    return;
  int64_t last = entry.positions.back();
  for (auto [i, source] : llvm::enumerate(sources.drop_back())) {
    int64_t position = entry.positions[i];
    if (position < 0 || position >= last || last - position > kMaxSpread ||
        source->getNumRegions() != 0)
      return;
    // Ops between, but for its own that follow it, and for those that are
    // still at the places of later raised ops.
    int64_t between =
        last - position - static_cast<int64_t>(sources.size() - 1 - i);
    for (const auto *at = llvm::upper_bound(
             places, std::pair(position, std::numeric_limits<size_t>::max()));
         at != places.end() && at->first < last && between > 0; ++at)
      between -= at->second > index;
    // The sources that have not moved yet are right in front of the last.
    Block::iterator place(source);
    while (place != block->begin()) {
      Operation &before = *std::prev(place);
      bool isUsed = llvm::any_of(source->getOperands(), [&](Value operand) {
        return operand.getDefiningOp() == &before;
      });
      if (isUsed || (i != 0 && &before == sources[i - 1]) ||
          (!hasSourceRegion(&before) && between-- <= 0))
        break;
      --place;
    }
    source->moveBefore(block, place);
  }
}

void BlockRestorer::inlineSources() {
  SmallVector<std::pair<int64_t, size_t>> places;
  for (auto [index, entry] : llvm::enumerate(raised)) {
    for (Operation *source : entry.sources)
      source->moveBefore(entry.op);
    for (int64_t position : entry.positions)
      places.push_back({position, index});
  }
  llvm::sort(places);
  for (size_t index = 0; index != raised.size(); ++index)
    spread(index, places);
}

void BlockRestorer::moveSources() {
  // Past this point the terminators of the source regions are of no use.
  for (Raised &entry : raised)
    entry.op->getRegion(0).front().back().erase();
  if (!merge() || !isOrdered())
    inlineSources();
}

void BlockRestorer::finish() {
  for (auto [result, source] : casts) {
    OpBuilder builder(result.getContext());
    builder.setInsertionPointAfterValue(source);
    Value cast = UnrealizedConversionCastOp::create(builder, source.getLoc(),
                                                    result.getType(), source)
                     .getResult(0);
    result.replaceAllUsesWith(cast);
  }
  for (Raised &entry : raised)
    entry.op->erase();
}

bool mlir::tandem::restoreSourceOps(Operation *root) {
  llvm::MapVector<Block *, BlockRestorer> blocks;
  bool changed = false;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!hasSourceRegion(op))
      return WalkResult::advance();
    changed = true;
    if (auto reduce = dyn_cast<AllReduceOp>(op);
        reduce && reduce.getFallback()) {
      // It has become an op in its own right.
      reduce.getSource().dropAllReferences();
      reduce.getSource().getBlocks().clear();
      reduce.removeSourcePositionsAttr();
      return WalkResult::skip();
    }
    blocks.try_emplace(op->getBlock(), op->getBlock()).first->second.add(op);
    return WalkResult::skip();
  });
  for (auto &[block, restorer] : blocks)
    restorer.detachOperands();
  for (auto &[block, restorer] : blocks)
    restorer.replaceResults();
  for (auto &[block, restorer] : blocks)
    restorer.moveSources();
  for (auto &[block, restorer] : blocks)
    restorer.finish();
  return changed;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMRESTORE
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

namespace {
struct TandemRestorePass
    : public mlir::tandem::impl::TandemRestoreBase<TandemRestorePass> {
  using TandemRestoreBase::TandemRestoreBase;

  void runOnOperation() override {
    if (!restoreSourceOps(getOperation()))
      markAllAnalysesPreserved();
  }
};
} // namespace
