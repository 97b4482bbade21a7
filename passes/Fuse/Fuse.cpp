//===- Fuse.cpp - The pass that fuses chains ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "Chain.h"
#include "ChainRewriter.h"
#include "FusedOps.h"
#include "Guard.h"
#include "MergeAllReduces.h"
#include "Movability.h"
#include "OptionText.h"
#include "Policy.h"
#include "Signature.h"
#include "Spelling.h"
#include "VersionFunction.h"

#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "tandem/OnnxOps/PrintableText.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Raise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/ToolOutputFile.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMFUSE
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// One all-reduce, or one fused op that was there before.
struct Candidate {
  Operation *op;
  SmallVector<Location, 2> locs; ///< of the source's all-reduces
  FusionSite site;               ///< what is found out about it
  std::optional<Chain> chain;    ///< set as long as it is to be fused
  LimitKey limit;
};

struct TandemFusePass
    : public mlir::tandem::impl::TandemFuseBase<TandemFusePass> {
  using TandemFuseBase::TandemFuseBase;

  void runOnOperation() override;

  LogicalResult initializeOptions(
      StringRef options,
      function_ref<LogicalResult(const Twine &)> errorHandler) override {
    if (failed(checkFuseOptionText(options, errorHandler)))
      return failure();
    return TandemFuseBase::initializeOptions(options, errorHandler);
  }

private:
  LogicalResult checkOptions();
  void fuseFunction(Operation *function);
  std::vector<Candidate> collect(Operation *function);
  void noteLookAlike(Operation *op, StringAttr function);
  void match(Candidate &candidate, ShapeAnalysis &shapes);
  bool version(MutableArrayRef<Candidate> candidates, Operation *function,
               ShapeAnalysis &shapes, GuardBuilder &guards);
  void count(MutableArrayRef<Candidate> candidates, ShapeAnalysis &shapes);
  bool rewrite(MutableArrayRef<Candidate> candidates, bool versioned,
               GuardBuilder &guards);
  bool retry(MutableArrayRef<Candidate> candidates);
  void report(const Candidate &candidate, StringAttr function);
  void warnOfLookAlikes();
  LogicalResult writeReport();
  LogicalResult checkRequirement();

  std::optional<FusePolicy> policy;
  FusionReport result;
  /// The first op whose name reads like an all-reduce's.
  Operation *firstLookAlike = nullptr;
  bool changed = false;
};
} // namespace

LogicalResult TandemFusePass::checkOptions() {
  TandemFuseOptions options;
  options.maxTokens = maxTokens;
  options.limits = limits;
  options.worldSize = worldSize;
  options.guard = guard;
  llvm::Expected<FusePolicy> created = FusePolicy::create(options);
  if (!created)
    return emitError(UnknownLoc::get(&getContext()))
           << "tandem-fuse: " << llvm::toString(created.takeError());
  policy = std::move(*created);
  return success();
}

/// Takes the candidate off the list of those to be fused. The text is made
/// here, since the op in the way may be gone later.
static void setMiss(Candidate &candidate, const Miss &miss) {
  candidate.chain.reset();
  candidate.site.reason = miss.reason;
  candidate.site.detail = miss.detail;
  candidate.site.advice = miss.advice.str();
  if (miss.blocker)
    candidate.site.blockedBy = miss.blocker->getName().getStringRef().str() +
                               " at " + getLocationText(miss.blocker->getLoc());
}

/// Where the all-reduce of a fused op stood: the first of the places that were
/// put together.
static Location getAllReduceLoc(FusedAllReduceNormOp op) {
  if (auto fused = dyn_cast<FusedLoc>(op.getLoc());
      fused && !fused.getLocations().empty())
    return fused.getLocations().front();
  return op.getLoc();
}

void TandemFusePass::noteLookAlike(Operation *op, StringAttr function) {
  std::string name = getAllReduceLookAlike(op);
  if (name.empty())
    return;
  if (!firstLookAlike)
    firstLookAlike = op;
  result.lookAlikes.push_back({function ? function.str() : "",
                               getLocationText(op->getLoc()), std::move(name)});
}

/// All-reduces that may fuse, those that fused before, and those that were not
/// raised, in order.
std::vector<Candidate> TandemFusePass::collect(Operation *function) {
  std::vector<Candidate> candidates;
  auto add = [&](Operation *op) -> Candidate & {
    return candidates.emplace_back(Candidate{op, {op->getLoc()}, {}, {}, {}});
  };
  auto addUnraised = [&](Operation *op, const Miss &miss) {
    Candidate &candidate = add(op);
    if (op->getNumResults() > 0)
      describeSite(candidate.site, GroupAttr::getWorld(&getContext()),
                   op->getResult(0).getType(),
                   policy->getWorldSize(GroupAttr::getWorld(&getContext())));
    setMiss(candidate, miss);
  };
  // The other branch of a guard that the model has.
  llvm::SmallPtrSet<Region *, 8> fallbacks;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if ((op != function && isa<FunctionOpInterface>(op)) ||
        fallbacks.contains(op->getParentRegion()))
      return WalkResult::skip();
    if (isFusionGuard(op))
      fallbacks.insert(&op->getRegion(1));
    if (auto form = getFusedNodeForm(op)) {
      // Fused by an earlier run, and not raised as its types aren't known.
      FusionSite &site = add(op).site;
      site.fused = true;
      site.pattern = getPatternName(form->hasPreGamma, form->hasResidual).str();
      describeSite(site, GroupAttr::getWorld(&getContext()),
                   op->getOperand(0).getType(),
                   policy->getWorldSize(GroupAttr::getWorld(&getContext())));
      return WalkResult::advance();
    }
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op)) {
      Candidate &candidate = add(op);
      candidate.locs = {getAllReduceLoc(fused)};
      FusionSite &site = candidate.site;
      site.fused = true;
      site.pattern = getPatternName(fused).str();
      if (fused->hasAttr(guardAttrName)) {
        site.guarded = true;
        site.guard = getGuardText(fused).str();
      }
      describeSite(site, fused.getGroupAttr(), fused.getInput().getType(),
                   policy->getWorldSize(fused.getGroupAttr()));
      return WalkResult::advance();
    }
    if (auto allReduce = dyn_cast<AllReduceOpInterface>(op)) {
      if (!allReduce.isFusionFallback()) {
        GroupAttr group = allReduce.getReductionGroup();
        describeSite(add(op).site, group,
                     allReduce.getReducedResult().getType(),
                     policy->getWorldSize(group));
      }
      return WalkResult::skip();
    }
    if (isa<AddOp, RMSNormOp>(op))
      return WalkResult::skip();
    std::optional<MatchFailure> why;
    if (succeeded(matchAllReduce(op, &why)))
      addUnraised(op, {MissReason::AllReduceNotRaised, {}, nullptr});
    else if (why)
      addUnraised(op,
                  {MissReason::AllReduceNotRaised, describe(why->reason).str(),
                   why->blocker, getAdvice(why->reason)});
    else
      noteLookAlike(op, SymbolTable::getSymbolName(function));
    return WalkResult::advance();
  });
  return candidates;
}

void TandemFusePass::match(Candidate &candidate, ShapeAnalysis &shapes) {
  auto allReduce = dyn_cast<AllReduceOpInterface>(candidate.op);
  if (!allReduce)
    return;
  if (policy->getWorldSize(allReduce.getReductionGroup()) == 1)
    return setMiss(candidate, {MissReason::WorldSizeOne, {}, nullptr});
  std::variant<Chain, Miss> found = matchChain(allReduce, shapes);
  if (auto *miss = std::get_if<Miss>(&found))
    return setMiss(candidate, *miss);
  candidate.chain = std::move(std::get<Chain>(found));
  FusionSite &site = candidate.site;
  if (std::optional<Miss> miss =
          policy->decide(*candidate.chain, site, candidate.limit))
    return setMiss(candidate, *miss);
  site.merged = candidate.locs.size() > 1;
}

/// Finds out which chains work on equally many tokens.
void TandemFusePass::count(MutableArrayRef<Candidate> candidates,
                           ShapeAnalysis &shapes) {
  SmallVector<Chain *> chains;
  for (Candidate &candidate : candidates)
    if (candidate.chain && candidate.site.guarded)
      chains.push_back(&*candidate.chain);
  countTokens(chains, shapes,
              /*inTermsOfArguments=*/guard == GuardKind::Function);
}

/// With guard=function, makes two versions of the function if that can be.
bool TandemFusePass::version(MutableArrayRef<Candidate> candidates,
                             Operation *function, ShapeAnalysis &shapes,
                             GuardBuilder &guards) {
  auto func = dyn_cast<func::FuncOp>(function);
  if (!func || guard != GuardKind::Function)
    return false;
  SmallVector<GuardedChain> chains;
  for (Candidate &candidate : candidates)
    if (candidate.chain && candidate.site.guarded)
      chains.push_back({&*candidate.chain, candidate.limit});
  IRRewriter rewriter(&getContext());
  return !chains.empty() && versionFunction(rewriter, func, chains, shapes,
                                            guards, batchInvariant);
}

/// Rewrites all candidates that have a chain. Returns whether any did fuse.
bool TandemFusePass::rewrite(MutableArrayRef<Candidate> candidates,
                             bool versioned, GuardBuilder &guards) {
  IRRewriter rewriter(&getContext());
  llvm::SetVector<Operation *> orphans;
  bool anyFused = false;
  for (Candidate &candidate : candidates) {
    if (!candidate.chain)
      continue;
    // Earlier chains have moved ops, and taken others away.
    if (std::optional<Miss> miss = updatePlace(*candidate.chain)) {
      setMiss(candidate, *miss);
      continue;
    }
    FusionSite &site = candidate.site;
    if (site.guarded && versioned)
      site.guard += ", once for the function";
    RewriteOptions options;
    options.guarded = site.guarded && !versioned;
    options.guardText = site.guard;
    options.batchInvariant = batchInvariant;
    options.limit = candidate.limit.given;
    rewriteChain(rewriter, *candidate.chain, guards, options, orphans);
    candidate.chain.reset();
    site.fused = true;
    anyFused = true;
  }
  // Only now, since any of them may belong to a chain that came later.
  eraseIfDead(rewriter, orphans);
  changed |= anyFused;
  return anyFused;
}

/// Tries those again that were missed: what stood in the way may have moved
/// away with another chain, or be gone. Else running the pass again would find
/// more.
bool TandemFusePass::retry(MutableArrayRef<Candidate> candidates) {
  ShapeAnalysis shapes;
  std::vector<FusionSite> before;
  llvm::SmallPtrSet<Operation *, 4> claimed;
  bool anyFound = false;
  for (Candidate &candidate : candidates) {
    before.push_back(candidate.site);
    FusionSite &site = candidate.site;
    if (site.fused)
      continue;
    site.detail.clear();
    site.advice.clear();
    site.blockedBy.clear();
    match(candidate, shapes);
    if (candidate.chain && !claimed.insert(candidate.chain->norm).second)
      candidate.chain.reset();
    anyFound |= candidate.chain.has_value();
  }
  count(candidates, shapes);
  GuardBuilder guards;
  bool anyFused = anyFound && rewrite(candidates, /*versioned=*/false, guards);
  // Those that are missed again keep the reason that was found first.
  for (auto [candidate, site] : llvm::zip_equal(candidates, before))
    if (!candidate.site.fused)
      candidate.site = std::move(site);
  return anyFused;
}

void TandemFusePass::fuseFunction(Operation *function) {
  MergedAllReduces merged;
  if (mergeAllReduces) {
    IRRewriter rewriter(&getContext());
    merged = mlir::tandem::mergeAllReduces(rewriter, function);
    changed |= !merged.locations.empty();
  }
  std::vector<Candidate> candidates = collect(function);
  ShapeAnalysis shapes;
  llvm::SmallPtrSet<Operation *, 16> claimed;
  for (Candidate &candidate : candidates) {
    if (auto locs = merged.locations.find(candidate.op);
        locs != merged.locations.end())
      candidate.locs = locs->second;
    match(candidate, shapes);
    // Two all-reduces that are added can both end in one norm. It is the
    // first's; the second stays its residual.
    if (candidate.chain && !claimed.insert(candidate.chain->norm).second)
      setMiss(candidate,
              {MissReason::SumOfAllReduces, {}, candidate.chain->getAdd()});
    // That they could be merged is no advice where it was tried.
    if (mergeAllReduces && !candidate.chain &&
        candidate.site.reason == MissReason::SumOfAllReduces) {
      candidate.site.reason = MissReason::AllReducesNotMerged;
      candidate.site.advice.clear();
      auto obstacle = merged.obstacles.find(candidate.op);
      candidate.site.detail = obstacle == merged.obstacles.end()
                                  ? "they are not added to each other alone"
                                  : obstacle->second;
    }
  }
  count(candidates, shapes);
  GuardBuilder guards;
  bool versioned = version(candidates, function, shapes, guards);
  changed |= versioned;
  // In a function that has been versioned, what is found later gets a check of
  // its own.
  for (bool again = rewrite(candidates, versioned, guards); again;)
    again = retry(candidates);
  for (const Candidate &candidate : candidates)
    report(candidate, SymbolTable::getSymbolName(function));
}

/// Adds the candidate to the report, and says the same in remarks.
void TandemFusePass::report(const Candidate &candidate, StringAttr function) {
  for (Location loc : candidate.locs) {
    FusionSite site = candidate.site;
    site.function = function ? function.str() : "";
    site.location = getLocationText(loc);
    // Streams of remarks know files and lines, but not names.
    Location place = loc;
    if (auto file = loc->findInstanceOf<FileLineColLoc>())
      place = file;
    auto opts = [&](StringRef name) {
      return remark::RemarkOpts::name(name)
          .category("tandem-fuse")
          .function(function ? function.getValue() : StringRef());
    };
    if (site.fused) {
      remark::passed(place, opts("Fused"))
          << remark::metric("pattern", site.pattern)
          << remark::metric("guard", site.guard.empty() ? "none" : site.guard)
          << remark::metric("hidden", site.hidden.value_or(0))
          << remark::metric("dtype", site.dtype)
          << remark::metric("group", makePrintable(site.group));
    } else {
      std::string reason = getMeaning(site.reason).str();
      if (!site.detail.empty())
        reason += ": " + site.detail;
      remark::missed(place, opts(tandem::getName(site.reason)))
          << remark::reason("{0}", makePrintable(reason))
          << remark::suggest("{0}", site.getSuggestion())
          << remark::metric("blocked_by", site.blockedBy.empty()
                                              ? std::string("none")
                                              : makePrintable(site.blockedBy));
    }
    result.sites.push_back(std::move(site));
  }
}

/// Fusion may have passed by all-reduces that it does not know as such, and
/// then the count of all-reduces would mislead.
void TandemFusePass::warnOfLookAlikes() {
  if (result.lookAlikes.empty())
    return;
  InFlightDiagnostic diagnostic =
      emitWarning(firstLookAlike->getLoc())
      << "tandem-fuse: " << result.lookAlikes.size()
      << " op(s) named like an all-reduce are in no spelling that is known, "
         "and are left as they are";
  constexpr unsigned maxNamed = 10;
  unsigned named = 0;
  for (const AllReduceLookAlike &lookAlike : result.lookAlikes)
    if (named++ < maxNamed)
      diagnostic << "; " << lookAlike.location << ": " << lookAlike.op;
  if (named > maxNamed)
    diagnostic << "; and " << named - maxNamed << " more";
  diagnostic << "; known are " << getAllReduceSpellings();
}

LogicalResult TandemFusePass::writeReport() {
  if (reportFile.empty())
    return success();
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file =
      openOutputFile(reportFile, &message);
  if (!file)
    return emitError(UnknownLoc::get(&getContext()))
           << "tandem-fuse: report: " << message;
  result.writeJSON(file->os());
  file->os().flush();
  if (file->os().has_error()) {
    std::error_code error = file->os().error();
    file->os().clear_error();
    return emitError(UnknownLoc::get(&getContext()))
           << "tandem-fuse: report: '" << reportFile
           << "': " << error.message();
  }
  file->keep();
  return success();
}

LogicalResult TandemFusePass::checkRequirement() {
  if (require != RequireKind::All)
    return success();
  if (result.getNumMissed() == 0) {
    if (result.lookAlikes.empty())
      return success();
    // The warning names them.
    return emitError(getOperation().getLoc())
           << "tandem-fuse: require=all: " << result.lookAlikes.size()
           << " op(s) named like an all-reduce are not known as such";
  }
  InFlightDiagnostic diagnostic =
      emitError(getOperation().getLoc())
      << "tandem-fuse: require=all: " << result.getNumMissed() << " of "
      << result.sites.size() << " all-reduces did not fuse";
  constexpr unsigned maxNamed = 10;
  unsigned named = 0;
  for (const FusionSite &site : result.sites)
    if (!site.fused && named++ < maxNamed)
      diagnostic << "; " << site.location << ": "
                 << tandem::getName(site.reason);
  if (named > maxNamed)
    diagnostic << "; and " << named - maxNamed << " more";
  return failure();
}

void TandemFusePass::runOnOperation() {
  if (failed(checkOptions()))
    return signalPassFailure();
  ModuleOp module = getOperation();
  result = {};
  result.file = reportFile;
  firstLookAlike = nullptr;
  changed = false;
  if (auto file = module.getLoc()->findInstanceOf<FileLineColLoc>())
    result.model = file.getFilename().str();

  ArrayAttr allReduceNodes = collectAllReduceNodes(module);
  SmallVector<Operation *> functions;
  module.walk<WalkOrder::PreOrder>([&](FunctionOpInterface function) {
    // The other version of a function is what a fallback is of a chain.
    if (!function.isExternal() && !function->hasAttr(fallbackAttrName))
      functions.push_back(function);
  });
  for (Operation *function : functions)
    fuseFunction(function);
  fuseFunction(module);
  warnOfLookAlikes();

  bool isFusedAnew = changed;
  // Fused ops that came with the module.
  if (!changed && !module->hasAttr(signatureAttrName))
    changed =
        module
            ->walk([](FusedAllReduceNormOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
  if (changed)
    writeSignature(module);
  if (isFusedAnew && allReduceNodes)
    module->setAttr(allReduceNodesAttrName, allReduceNodes);
  const auto &handler =
      getContext().getLoadedDialect<TandemDialect>()->getFusionReportHandler();
  if (handler)
    handler(result);
  // Both: the report says what the requirement missed.
  bool isWritten = succeeded(writeReport());
  if (failed(checkRequirement()) || !isWritten)
    return signalPassFailure();
  if (!changed)
    markAllAnalysesPreserved();
}
