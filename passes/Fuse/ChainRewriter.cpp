//===- ChainRewriter.cpp - From a chain to the fused op -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainRewriter.h"

#include "FusedOps.h"
#include "Spelling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tandem;

void mlir::tandem::dropSource(Operation *op) {
  op->removeAttr("source_positions");
  if (isa<AllReduceOp, AddOp, RMSNormOp>(op)) {
    Region &source = op->getRegion(0);
    source.dropAllReferences();
    source.getBlocks().clear();
  }
}

std::string mlir::tandem::getTokensKey(const Chain &chain) {
  std::string key;
  llvm::raw_string_ostream os(key);
  if (!chain.tokens) {
    os << &chain;
    return key;
  }
  os << chain.tokens->coefficient;
  for (unsigned atom : chain.tokens->atoms)
    os << '*' << atom;
  return key;
}

namespace {
/// Rewrites one chain.
class ChainRewriter {
public:
  ChainRewriter(RewriterBase &rewriter, Chain &chain, GuardBuilder &guards,
                const RewriteOptions &options,
                llvm::SetVector<Operation *> &orphans)
      : rewriter(rewriter), chain(chain), guards(guards), options(options),
        orphans(orphans), loc(getFusedLoc()) {}

  void run();

private:
  /// Locations of all ops of the chain, in their order.
  Location getFusedLoc() const;
  Value castTo(Value value, Type type);
  Value applyViews(ArrayRef<Operation *> views, Value value);
  Value getCondition(Value input);
  /// What the chain gives to others: the norm, then the residual and the sum
  /// where they are needed.
  SmallVector<Value, 3> getReplacedValues() const;
  SmallVector<Value, 3> buildFused(Value input);
  SmallVector<Value, 3> buildFallback();
  /// Has `op`, whose results stand for the replaced values, tell their names.
  void keepNames(Operation *op);
  void eraseChain();

  RewriterBase &rewriter;
  Chain &chain;
  GuardBuilder &guards;
  const RewriteOptions &options;
  llvm::SetVector<Operation *> &orphans;
  Location loc;
  /// Of each op of the chain its copy in the other branch.
  llvm::SmallDenseMap<Operation *, Operation *, 8> copies;
};
} // namespace

Location ChainRewriter::getFusedLoc() const {
  SmallVector<Location> locs{chain.allReduce->getLoc()};
  for (Operation *op : chain.interior)
    locs.push_back(op->getLoc());
  locs.push_back(chain.norm->getLoc());
  return rewriter.getFusedLoc(locs);
}

Value ChainRewriter::castTo(Value value, Type type) {
  if (value.getType() == type)
    return value;
  return tensor::CastOp::create(rewriter, loc, type, value);
}

/// Names belong to one op only.
static void dropNames(Operation *op) {
  op->removeDiscardableAttr("onnx_node_name");
  op->removeDiscardableAttr("tandem.outputs");
  op->removeDiscardableAttr("tandem.extra");
}

/// Puts copies of `views` behind `value`.
Value ChainRewriter::applyViews(ArrayRef<Operation *> views, Value value) {
  for (Operation *view : views) {
    IRMapping mapping;
    mapping.map(view->getOperand(0),
                castTo(value, view->getOperand(0).getType()));
    Operation *copy = rewriter.clone(*view, mapping);
    dropNames(copy);
    value = copy->getResult(0);
  }
  return value;
}

/// The i1 that decides for the fused op.
Value ChainRewriter::getCondition(Value input) {
  LimitKey key{chain.allReduce.getReductionGroup(), chain.hidden,
               chain.type.getElementType(), options.limit};
  auto getTokens = [&](OpBuilder &builder) {
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(builder, loc, input);
    return GuardBuilder::multiplyDims(builder, loc,
                                      ArrayRef(sizes).drop_back());
  };
  Value condition = guards.getTokensInRange(rewriter, loc, key,
                                            getTokensKey(chain), getTokens);
  for (unsigned dim : chain.comparedDims) {
    auto sizeOf = [&](Value value) -> Value {
      return tensor::DimOp::create(rewriter, loc, value, dim);
    };
    // One after the other: arguments are evaluated in no fixed order.
    Value ours = sizeOf(input);
    Value theirs = sizeOf(chain.residual->get());
    Value equal = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                        ours, theirs);
    condition = arith::AndIOp::create(rewriter, loc, condition, equal);
  }
  return condition;
}

SmallVector<Value, 3> ChainRewriter::getReplacedValues() const {
  SmallVector<Value, 3> values{chain.norm.getNormResult()};
  if (chain.returnsResidual)
    values.push_back(chain.getAdd()->getResult(0));
  if (chain.returnsSum)
    values.push_back(chain.sum);
  return values;
}

/// A bias or gamma as a tensor of rank 1.
static Value asRow(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() == 1)
    return value;
  return tensor::CollapseShapeOp::create(
      builder, loc, value,
      SmallVector<ReassociationIndices>{
          llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()))});
}

SmallVector<Value, 3> ChainRewriter::buildFused(Value input) {
  // The chain's type may say more than the input's. Lowered, that is checked in
  // the name of who says it.
  if (input.getType() != chain.type)
    input = tensor::CastOp::create(
        rewriter, chain.declares ? chain.declares->getLoc() : loc, chain.type,
        input);
  Value residual, bias, preGamma;
  if (chain.residual)
    residual = castTo(chain.residual->get(), chain.type);
  if (chain.bias)
    bias = asRow(rewriter, loc, chain.bias->get());
  FloatAttr preEpsilon;
  NormRounding preRounding = NormRounding::BeforeGamma;
  if (chain.preNorm) {
    preGamma = chain.preNorm.getNormGamma();
    preEpsilon = chain.preNorm.getNormEpsilon();
    preRounding = chain.preNorm.getNormRounding();
  }
  Value workspace, stream;
  bool isBatchInvariant = options.batchInvariant;
  if (auto allReduce = dyn_cast<AllReduceOp>(*chain.allReduce)) {
    workspace = allReduce.getWorkspace();
    stream = allReduce.getStream();
    isBatchInvariant |= allReduce.getBatchInvariant();
  }
  auto unitIf = [&](bool set) {
    return set ? rewriter.getUnitAttr() : UnitAttr();
  };
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, input);
  SmallVector<Value, 3> inits;
  for (unsigned i = 0, e = 1 + chain.returnsResidual + chain.returnsSum; i != e;
       ++i)
    inits.push_back(tensor::EmptyOp::create(rewriter, loc, sizes,
                                            chain.type.getElementType()));
  for (Value &init : inits)
    init = castTo(init, chain.type);
  auto fused = FusedAllReduceNormOp::create(
      rewriter, loc, SmallVector<Type>(inits.size(), chain.type), input,
      residual, bias, preGamma, chain.norm.getNormGamma(), workspace, stream,
      inits, chain.allReduce.getReductionGroup(), chain.norm.getNormEpsilon(),
      NormRoundingAttr::get(rewriter.getContext(),
                            chain.norm.getNormRounding()),
      preEpsilon, NormRoundingAttr::get(rewriter.getContext(), preRounding),
      unitIf(chain.returnsResidual), unitIf(chain.returnsSum),
      unitIf(isBatchInvariant));

  if (!options.guardText.empty())
    fused->setDiscardableAttr(guardAttrName,
                              rewriter.getStringAttr(options.guardText));

  SmallVector<Value, 3> results;
  results.push_back(applyViews(chain.viewsAfter, fused.getNorm()));
  llvm::append_range(results, fused.getResults().drop_front());
  for (auto [result, replaced] : llvm::zip_equal(results, getReplacedValues()))
    result = castTo(result, replaced.getType());
  return results;
}

SmallVector<Value, 3> ChainRewriter::buildFallback() {
  IRMapping mapping;
  SmallVector<Operation *> ops{chain.allReduce};
  llvm::append_range(ops, chain.interior);
  ops.push_back(chain.norm);
  for (Operation *op : ops) {
    Operation *copy = op->cloneWithoutRegions(mapping);
    if (isa<AllReduceOp, AddOp, RMSNormOp>(op)) {
      // The source region stays behind.
      copy->removeAttr("source_positions");
    } else {
      for (auto [from, to] :
           llvm::zip_equal(op->getRegions(), copy->getRegions()))
        from.cloneInto(&to, mapping);
    }
    for (auto [from, to] :
         llvm::zip_equal(op->getResults(), copy->getResults()))
      mapping.map(from, to);
    rewriter.insert(copy);
    copies[op] = copy;
  }
  cast<AllReduceOpInterface>(
      mapping.lookup(chain.allReduce.getReducedResult()).getDefiningOp())
      .markFusionFallback(options.batchInvariant);
  return llvm::map_to_vector<3>(
      getReplacedValues(), [&](Value value) { return mapping.lookup(value); });
}

void ChainRewriter::keepNames(Operation *op) {
  SmallVector<StringRef, 3> names, dims;
  for (Value value : getReplacedValues()) {
    names.push_back(getSourceName(value));
    dims.push_back(getDimNames(value));
  }
  auto set = [&](StringRef attrName, ArrayRef<StringRef> texts) {
    if (!llvm::all_of(texts, [](StringRef text) { return text.empty(); }))
      op->setDiscardableAttr(attrName, rewriter.getStrArrayAttr(texts));
  };
  set("tandem.outputs", names);
  set("tandem.dim_params", dims);
}

void ChainRewriter::eraseChain() {
  SmallVector<Operation *> ops{chain.norm};
  llvm::append_range(ops, llvm::reverse(chain.interior));
  ops.push_back(chain.allReduce);
  for (Operation *op : ops) {
    if (!op->use_empty()) {
      if (Operation *copy = copies.lookup(op))
        dropNames(copy);
      continue;
    }
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && !op->isAncestor(producer) && !chain.contains(producer))
          orphans.insert(producer);
    });
    orphans.remove(op);
    rewriter.eraseOp(op);
  }
}

void ChainRewriter::run() {
  rewriter.setInsertionPointAfter(chain.insertAfter);
  Value input =
      applyViews(chain.viewsBefore, chain.allReduce.getReducedOperand().get());
  SmallVector<Value, 3> replaced = getReplacedValues();
  SmallVector<Value, 3> results;
  Operation *last = nullptr;
  if (options.guarded) {
    Value condition = getCondition(input);
    SmallVector<Type, 3> types =
        llvm::map_to_vector<3>(replaced, [](Value v) { return v.getType(); });
    auto branch = scf::IfOp::create(rewriter, loc, types, condition,
                                    /*withElseRegion=*/true);
    rewriter.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(rewriter, loc, buildFused(input));
    rewriter.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(rewriter, loc, buildFallback());
    results = llvm::to_vector<3>(ValueRange(branch.getResults()));
    keepNames(branch);
    last = branch;
  } else {
    results = buildFused(input);
    last = rewriter.getInsertionBlock()->empty()
               ? nullptr
               : &*std::prev(rewriter.getInsertionPoint());
    // Behind views the names are those of others.
    if (chain.viewsAfter.empty())
      if (auto fused = results.front().getDefiningOp<FusedAllReduceNormOp>())
        keepNames(fused);
  }
  for (Operation *op : chain.movedDown) {
    rewriter.moveOpAfter(op, last);
    last = op;
  }
  // Copies of the chain in the other branch read nothing of what is replaced.
  for (auto [from, to] : llvm::zip_equal(replaced, results))
    rewriter.replaceAllUsesWith(from, to);
  // Behind casts that change nothing the sum has other names.
  if (chain.returnsSum)
    for (Value alias : chain.sumAliases)
      rewriter.replaceAllUsesWith(alias, results.back());
  eraseChain();
}

void mlir::tandem::rewriteChain(RewriterBase &rewriter, Chain &chain,
                                GuardBuilder &guards,
                                const RewriteOptions &options,
                                llvm::SetVector<Operation *> &orphans) {
  ChainRewriter(rewriter, chain, guards, options, orphans).run();
}
