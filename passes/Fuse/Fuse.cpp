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
#include "Limits.h"
#include "MergeAllReduces.h"
#include "Movability.h"
#include "Signature.h"
#include "Spelling.h"
#include "VersionFunction.h"

#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Dialect/Tandem.h"
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

private:
  LogicalResult checkOptions();
  void fuseFunction(Operation *function);
  std::vector<Candidate> collect(Operation *function);
  void match(Candidate &candidate, ShapeAnalysis &shapes);
  std::optional<Miss> decide(Candidate &candidate);
  bool version(MutableArrayRef<Candidate> candidates, Operation *function,
               ShapeAnalysis &shapes, GuardBuilder &guards);
  void count(MutableArrayRef<Candidate> candidates, ShapeAnalysis &shapes);
  bool rewrite(MutableArrayRef<Candidate> candidates, bool versioned,
               GuardBuilder &guards);
  bool retry(MutableArrayRef<Candidate> candidates);
  void report(const Candidate &candidate, StringAttr function);
  LogicalResult writeReport();
  LogicalResult checkRequirement();

  std::optional<int64_t> getWorldSize(GroupAttr group) const {
    if (group.getSize() > 0)
      return group.getSize();
    return worldSize > 0 ? std::optional<int64_t>(worldSize) : std::nullopt;
  }

  std::optional<TuningProfile> profile;
  FusionReport result;
  bool changed = false;
};
} // namespace

LogicalResult TandemFusePass::checkOptions() {
  auto fail = [&](const Twine &message) {
    return emitError(UnknownLoc::get(&getContext()))
           << "tandem-fuse: " << message;
  };
  if (maxTokens == 0 || maxTokens < -1)
    return fail("max-tokens must be positive, or -1 for the runtime's limit "
                "alone, not " +
                Twine(maxTokens));
  if (worldSize < 0)
    return fail("world-size must be positive, or 0 where it is not known, "
                "not " +
                Twine(worldSize));
  profile.reset();
  if (limits.empty())
    return success();
  llvm::Expected<TuningProfile> loaded = TuningProfile::load(limits);
  if (!loaded)
    return fail(llvm::toString(loaded.takeError()));
  profile = std::move(*loaded);
  return success();
}

/// Takes the candidate off the list of those to be fused. The text is made
/// here, since the op in the way may be gone later.
static void setMiss(Candidate &candidate, const Miss &miss) {
  candidate.chain.reset();
  candidate.site.reason = miss.reason;
  candidate.site.detail = miss.detail;
  if (miss.blocker)
    candidate.site.blockedBy = miss.blocker->getName().getStringRef().str() +
                               " at " + getLocationText(miss.blocker->getLoc());
}

/// What is known of an all-reduce, or of any op that takes its place.
static void describeSite(FusionSite &site, GroupAttr group, Type type,
                         std::optional<int64_t> worldSize) {
  site.group = group.getName().str();
  site.worldSize = worldSize;
  llvm::raw_string_ostream(site.dtype) << getElementTypeOrSelf(type);
  if (auto shaped = dyn_cast<RankedTensorType>(type);
      shaped && shaped.getRank() > 0 &&
      !ShapedType::isDynamic(shaped.getShape().back()))
    site.hidden = shaped.getShape().back();
}

/// Where the all-reduce of a fused op stood: the first of the places that were
/// put together.
static Location getAllReduceLoc(FusedAllReduceNormOp op) {
  if (auto fused = dyn_cast<FusedLoc>(op.getLoc());
      fused && !fused.getLocations().empty())
    return fused.getLocations().front();
  return op.getLoc();
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
                   getWorldSize(GroupAttr::getWorld(&getContext())));
    setMiss(candidate, miss);
  };
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != function && isa<FunctionOpInterface>(op))
      return WalkResult::skip();
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
                   getWorldSize(fused.getGroupAttr()));
      return WalkResult::advance();
    }
    if (auto allReduce = dyn_cast<AllReduceOpInterface>(op)) {
      if (!allReduce.isFusionFallback()) {
        GroupAttr group = allReduce.getReductionGroup();
        describeSite(add(op).site, group,
                     allReduce.getReducedResult().getType(),
                     getWorldSize(group));
      }
      return WalkResult::skip();
    }
    if (isa<AddOp, RMSNormOp>(op))
      return WalkResult::skip();
    std::optional<MatchFailure> why;
    if (succeeded(matchAllReduce(op, &why)))
      addUnraised(op, {MissReason::AllReduceNotRaised, {}, nullptr});
    else if (why)
      addUnraised(op, {MissReason::AllReduceNotRaised,
                       describe(why->reason).str(), why->blocker});
    return WalkResult::advance();
  });
  return candidates;
}

/// Applies limits and options to a chain that was found.
std::optional<Miss> TandemFusePass::decide(Candidate &candidate) {
  Chain &chain = *candidate.chain;
  FusionSite &site = candidate.site;
  GroupAttr group = chain.allReduce.getReductionGroup();
  candidate.limit = {group, chain.hidden, chain.type.getElementType(),
                     std::nullopt};
  std::optional<int64_t> &given = candidate.limit.given;
  if (maxTokens > 0)
    given = maxTokens;
  if (profile) {
    std::optional<int64_t> limit =
        profile->lookup(chain.hidden, site.dtype, getWorldSize(group));
    if (!limit || *limit <= 0)
      return Miss{MissReason::NoLimitInProfile,
                  "hidden " + std::to_string(chain.hidden) + ", " + site.dtype,
                  nullptr};
    given = given ? std::min(*given, *limit) : *limit;
  }
  if (given && chain.staticTokens && *chain.staticTokens > *given)
    return Miss{MissReason::StaticTokensExceedLimit,
                std::to_string(*chain.staticTokens) + " tokens, limit " +
                    std::to_string(*given),
                nullptr};
  bool compares = !chain.comparedDims.empty();
  if (guard == GuardKind::None && compares)
    return Miss{MissReason::ResidualShapeUnproven, {}, chain.getAdd()};
  site.hidden = chain.hidden;
  site.pattern = chain.getPatternName().str();
  site.merged = candidate.locs.size() > 1;
  site.guarded =
      guard != GuardKind::None && (compares || !(given && chain.staticTokens));
  if (site.guarded) {
    site.guard =
        "tokens <= " + (given ? std::to_string(*given) : "token_limit");
    if (compares)
      site.guard += " and the residual has the sum's shape";
  }
  return std::nullopt;
}

void TandemFusePass::match(Candidate &candidate, ShapeAnalysis &shapes) {
  auto allReduce = dyn_cast<AllReduceOpInterface>(candidate.op);
  if (!allReduce)
    return;
  if (getWorldSize(allReduce.getReductionGroup()) == 1)
    return setMiss(candidate, {MissReason::WorldSizeOne, {}, nullptr});
  std::variant<Chain, Miss> found = matchChain(allReduce, shapes);
  if (auto *miss = std::get_if<Miss>(&found))
    return setMiss(candidate, *miss);
  candidate.chain = std::move(std::get<Chain>(found));
  if (std::optional<Miss> miss = decide(candidate))
    setMiss(candidate, *miss);
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
  eraseIfDead(orphans);
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
          << remark::metric("group", site.group);
    } else {
      std::string reason = getMeaning(site.reason).str();
      if (!site.detail.empty())
        reason += ": " + site.detail;
      remark::missed(place, opts(tandem::getName(site.reason)))
          << remark::reason("{0}", reason)
          << remark::suggest("{0}", getAdvice(site.reason))
          << remark::metric("blocked_by", site.blockedBy.empty()
                                              ? std::string("none")
                                              : site.blockedBy);
    }
    result.sites.push_back(std::move(site));
  }
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
  if (require != RequireKind::All || result.getNumMissed() == 0)
    return success();
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

  if (changed) {
    writeSignature(module);
    if (allReduceNodes)
      module->setAttr(allReduceNodesAttrName, allReduceNodes);
  }
  const auto &handler =
      getContext().getLoadedDialect<TandemDialect>()->getFusionReportHandler();
  if (handler)
    handler(result);
  if (failed(writeReport()) | failed(checkRequirement()))
    return signalPassFailure();
  if (!changed)
    markAllAnalysesPreserved();
}
