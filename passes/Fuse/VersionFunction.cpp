//===- VersionFunction.cpp - One check for a whole function ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VersionFunction.h"

#include "ChainRewriter.h"
#include "FusedOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Where an atom of the shape analysis can be read: a dim of an argument.
struct ArgumentDim {
  unsigned argument, dim;
};
} // namespace

static llvm::DenseMap<unsigned, ArgumentDim>
getArgumentDims(func::FuncOp function, ShapeAnalysis &shapes) {
  llvm::DenseMap<unsigned, ArgumentDim> dims;
  for (BlockArgument argument : function.getArguments()) {
    std::optional<SmallVector<SymbolicDim>> shape = shapes.getShape(argument);
    if (!shape)
      continue;
    for (auto [i, dim] : llvm::enumerate(*shape))
      if (dim.isAtom())
        dims.try_emplace(
            dim.atoms.front(),
            ArgumentDim{argument.getArgNumber(), static_cast<unsigned>(i)});
  }
  return dims;
}

/// A private function of `original`'s type, put after it.
static func::FuncOp createPrivate(RewriterBase &rewriter, SymbolTable &symbols,
                                  func::FuncOp original, StringRef suffix) {
  auto function = func::FuncOp::create(original.getLoc(),
                                       (original.getSymName() + suffix).str(),
                                       original.getFunctionType());
  function.setPrivate();
  function.setAllArgAttrs(original.getAllArgAttrs());
  function.setAllResultAttrs(original.getAllResultAttrs());
  symbols.insert(function, std::next(Block::iterator(original)));
  return function;
}

bool mlir::tandem::versionFunction(RewriterBase &rewriter,
                                   func::FuncOp function,
                                   ArrayRef<GuardedChain> chains,
                                   ShapeAnalysis &shapes, GuardBuilder &guards,
                                   bool batchInvariant) {
  if (!function.getBody().hasOneBlock() ||
      !isa<func::ReturnOp>(function.getBody().front().getTerminator()))
    return false;
  llvm::DenseMap<unsigned, ArgumentDim> dims =
      getArgumentDims(function, shapes);
  for (const GuardedChain &guarded : chains) {
    const Chain &chain = *guarded.chain;
    if (!chain.tokens || !chain.comparedDims.empty() ||
        !llvm::all_of(chain.tokens->atoms,
                      [&](unsigned id) { return dims.contains(id); }))
      return false;
  }

  // The copy first, while the chains' ops still have their places.
  SymbolTable symbols(function->getParentOp());
  IRMapping mapping;
  func::FuncOp fallback =
      createPrivate(rewriter, symbols, function, "_fallback");
  fallback->setAttr(fallbackAttrName, rewriter.getUnitAttr());
  function.getBody().cloneInto(&fallback.getBody(), mapping);
  for (const GuardedChain &guarded : chains) {
    const Chain &chain = *guarded.chain;
    auto copyOf = [&](Operation *op) {
      return mapping.lookup(op->getResult(0)).getDefiningOp();
    };
    for (Operation *op : chain.interior)
      dropSource(copyOf(op));
    dropSource(copyOf(chain.norm));
    Operation *allReduce = copyOf(chain.allReduce);
    dropSource(allReduce);
    cast<AllReduceOpInterface>(allReduce).markFusionFallback(batchInvariant);
  }
  func::FuncOp fused = createPrivate(rewriter, symbols, function, "_fused");
  fused.getBody().takeBody(function.getBody());

  Location loc = function.getLoc();
  Block *entry = function.addEntryBlock();
  rewriter.setInsertionPointToStart(entry);
  Value condition;
  for (const GuardedChain &guarded : chains) {
    const Chain &chain = *guarded.chain;
    auto getTokens = [&](OpBuilder &builder) {
      SmallVector<OpFoldResult> sizes{
          builder.getIndexAttr(chain.tokens->coefficient)};
      for (unsigned id : chain.tokens->atoms) {
        ArgumentDim place = dims.lookup(id);
        sizes.push_back(
            tensor::DimOp::create(builder, loc,
                                  entry->getArgument(place.argument), place.dim)
                .getResult());
      }
      return GuardBuilder::multiplyDims(builder, loc, sizes);
    };
    Value check = guards.getTokensInRange(rewriter, loc, guarded.limit,
                                          getTokensKey(chain), getTokens);
    if (!condition)
      condition = check;
    else if (condition != check)
      condition = arith::AndIOp::create(rewriter, loc, condition, check);
  }
  auto branch =
      scf::IfOp::create(rewriter, loc, function.getResultTypes(), condition,
                        /*withElseRegion=*/true);
  auto fill = [&](Block *block, func::FuncOp callee) {
    rewriter.setInsertionPointToStart(block);
    auto call = func::CallOp::create(rewriter, loc, callee,
                                     ValueRange(entry->getArguments()));
    scf::YieldOp::create(rewriter, loc, call.getResults());
  };
  fill(branch.thenBlock(), fused);
  fill(branch.elseBlock(), fallback);
  rewriter.setInsertionPointToEnd(entry);
  func::ReturnOp::create(rewriter, loc, branch.getResults());
  return true;
}
