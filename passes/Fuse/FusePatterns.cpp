//===- FusePatterns.cpp - Fusion as a pattern -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Fuse.h"

#include "Chain.h"
#include "ChainRewriter.h"
#include "Movability.h"
#include "Policy.h"

#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Dialect/Tandem.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
struct FusePattern : public OpInterfaceRewritePattern<AllReduceOpInterface> {
  FusePattern(MLIRContext *context, FusePolicy policy, bool batchInvariant)
      : OpInterfaceRewritePattern(context), policy(std::move(policy)),
        batchInvariant(batchInvariant) {}

  LogicalResult matchAndRewrite(AllReduceOpInterface allReduce,
                                PatternRewriter &rewriter) const override {
    if (allReduce.isFusionFallback())
      return rewriter.notifyMatchFailure(allReduce, "it is a fallback");
    auto miss = [&](MissReason reason) {
      return rewriter.notifyMatchFailure(allReduce, tandem::getName(reason));
    };
    GroupAttr group = allReduce.getReductionGroup();
    std::optional<int64_t> worldSize = policy.getWorldSize(group);
    if (worldSize == 1)
      return miss(MissReason::WorldSizeOne);
    ShapeAnalysis shapes;
    std::variant<Chain, Miss> found = matchChain(allReduce, shapes);
    if (auto *why = std::get_if<Miss>(&found))
      return miss(why->reason);
    Chain &chain = std::get<Chain>(found);
    FusionSite site;
    describeSite(site, group, allReduce.getReducedResult().getType(),
                 worldSize);
    LimitKey limit;
    if (std::optional<Miss> why = policy.decide(chain, site, limit))
      return miss(why->reason);

    RewriteOptions options;
    options.guarded = site.guarded;
    options.guardText = site.guard;
    options.batchInvariant = batchInvariant;
    options.limit = limit.given;
    GuardBuilder guards;
    llvm::SetVector<Operation *> orphans;
    rewriteChain(rewriter, chain, guards, options, orphans);
    eraseIfDead(rewriter, orphans);
    return success();
  }

private:
  FusePolicy policy;
  bool batchInvariant;
};
} // namespace

llvm::Error
mlir::tandem::populateFusePatterns(RewritePatternSet &patterns,
                                   const TandemFuseOptions &options) {
  StringRef whole;
  if (options.guard == GuardKind::Function)
    whole = "guard=function";
  else if (options.mergeAllReduces)
    whole = "merge-all-reduces";
  else if (!options.reportFile.empty())
    whole = "report";
  else if (options.require == RequireKind::All)
    whole = "require=all";
  if (!whole.empty())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   whole + " needs the pass tandem-fuse");
  llvm::Expected<FusePolicy> policy = FusePolicy::create(options);
  if (!policy)
    return policy.takeError();
  patterns.add<FusePattern>(patterns.getContext(), std::move(*policy),
                            options.batchInvariant);
  return llvm::Error::success();
}
