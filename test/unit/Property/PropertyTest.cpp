//===- PropertyTest.cpp - Passes keep the meaning of modules --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generator.h"
#include "Interpreter.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::test;

namespace {
/// A number from the environment, for runs by hand.
uint64_t getSetting(const char *name, uint64_t absent) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : absent;
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

class PropertyTest : public testing::Test {
protected:
  PropertyTest() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<TandemDialect, OnnxDialect, arith::ArithDialect,
                        func::FuncDialect, scf::SCFDialect,
                        tensor::TensorDialect>();
    context.getLoadedDialect<TandemDialect>()->setFusionReportHandler(
        [this](const FusionReport &latest) { report = latest; });
  }

  /// Checks the sample of `seed`. Returns what is wrong, empty if nothing.
  std::string check(uint64_t seed);
  std::string checkRaiseAndRestore(Sample &sample);
  std::string checkRuns(Sample &sample, ModuleOp after, Random &random);
  std::string compare(const Outcome &before, const Outcome &after);
  std::string runPasses(ModuleOp module,
                        function_ref<void(OpPassManager &)> build);

  MLIRContext context;
  FusionReport report;
  TandemFuseOptions options;
  // What was covered in all.
  unsigned numFused = 0, numMissed = 0, numFusedRuns = 0, numFallbackRuns = 0;
  unsigned numGuards[3] = {0, 0, 0};
  bool numPatterns[3] = {false, false, false};
};
} // namespace

std::string PropertyTest::runPasses(ModuleOp module,
                                    function_ref<void(OpPassManager &)> build) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  PassManager passes(&context);
  build(passes);
  if (failed(passes.run(module)))
    return "the passes fail: " + messages;
  return {};
}

std::string PropertyTest::compare(const Outcome &before, const Outcome &after) {
  if (!after.error.empty())
    return "run after the passes: " + after.error;
  if (before.results.size() != after.results.size())
    return "another number of results";
  if (options.mergeAllReduces) {
    // Sums are rounded elsewhere, which a norm of small values makes large; so
    // only shapes are compared, and that no collective is added.
    if (after.trace.size() > before.trace.size())
      return "merging has added collectives";
    for (auto [x, y] : llvm::zip_equal(before.results, after.results))
      for (auto [p, q] : llvm::zip_equal(*x, *y))
        if (p.shape != q.shape)
          return "a result has another shape";
    return {};
  }
  if (before.trace != after.trace) {
    std::string message = "the collectives executed differ; before:\n";
    for (const std::string &line : before.trace)
      message += "  " + line + "\n";
    message += "after:\n";
    for (const std::string &line : after.trace)
      message += "  " + line + "\n";
    return message;
  }
  for (size_t i = 0; i != before.results.size(); ++i)
    for (auto [rank, x, y] :
         llvm::enumerate(*before.results[i], *after.results[i]))
      if (!isIdentical(x, y))
        return "result " + std::to_string(i) + " differs on rank " +
               std::to_string(rank);
  return {};
}

std::string PropertyTest::checkRuns(Sample &sample, ModuleOp after,
                                    Random &random) {
  for (unsigned run = 0; run != 3; ++run) {
    Sizes sizes = sample.pickSizes(random);
    int64_t tokens = sizes.getTokens();
    int64_t limit =
        random.oneOf<int64_t>({-1, tokens - 1, tokens, tokens + 1, 1000});
    std::vector<RankValues> arguments =
        sample.pickArguments(random, sizes, /*numRanks=*/2 + random.below(2));
    Outcome before = interpret(sample.getModule(), "main", arguments, limit);
    // The generator must not make modules that mean nothing.
    if (!before.error.empty())
      return "run before the passes: " + before.error;
    Outcome outcome = interpret(after, "main", arguments, limit);
    std::string wrong = compare(before, outcome);
    if (!wrong.empty())
      return wrong + "\n(batch " + std::to_string(sizes.batch) + ", sequence " +
             std::to_string(sizes.sequence) + ", limit " +
             std::to_string(limit) + ")";
    if (report.getNumFused() != 0)
      ++(outcome.fusedTokens.empty() ? numFallbackRuns : numFusedRuns);
    if (options.guard == GuardKind::None)
      continue;
    // A static count that a given limit allows needs no check of the runtime's.
    int64_t most = options.maxTokens > 0 ? options.maxTokens : limit;
    for (int64_t fused : outcome.fusedTokens)
      if (fused <= 0 || fused > most)
        return "runs fused for " + std::to_string(fused) + " tokens, limit " +
               std::to_string(most);
  }
  return {};
}

std::string PropertyTest::checkRaiseAndRestore(Sample &sample) {
  std::string before = print(sample.getModule());
  OwningOpRef<ModuleOp> module = sample.getModule().clone();
  std::string wrong = runPasses(*module, [](OpPassManager &passes) {
    passes.addPass(createTandemRaise());
  });
  if (!wrong.empty())
    return "raise: " + wrong;
  std::string raised = print(*module);
  wrong = runPasses(*module, [](OpPassManager &passes) {
    passes.addPass(createTandemRestore());
  });
  if (!wrong.empty())
    return "restore: " + wrong + raised;
  if (print(*module) != before)
    return "raise and restore change the module; raised:\n" + raised +
           "restored:\n" + print(*module);
  return {};
}

std::string PropertyTest::check(uint64_t seed) {
  Random random(seed ^ 0x5eed);
  Sample sample(context, seed, /*size=*/1 + random.below(4));
  ModuleOp source = sample.getModule();
  if (failed(verify(source)))
    return "the sample is invalid:\n" + print(source);
  std::string before = print(source);

  options = {};
  options.maxTokens = random.oneOf<int64_t>({-1, -1, 1, 2, 4, 6, 100});
  options.guard = random.oneOf({GuardKind::Chain, GuardKind::Chain,
                                GuardKind::Function, GuardKind::None});
  options.batchInvariant = random.chance(25);
  options.mergeAllReduces = random.chance(10);
  options.worldSize = random.oneOf<int64_t>({0, 0, 2});

  auto describe = [&](const std::string &wrong, ModuleOp after) {
    std::string text =
        wrong + "\noptions: max-tokens=" + std::to_string(options.maxTokens) +
        " guard=" + std::to_string(static_cast<int>(options.guard)) +
        " batch-invariant=" + std::to_string(options.batchInvariant) +
        " merge=" + std::to_string(options.mergeAllReduces) + "\nbefore:\n" +
        before;
    if (after)
      text += "after:\n" + print(after);
    return text;
  };

  // For modules that crash the passes.
  if (std::getenv("TANDEM_PROPERTY_PRINT"))
    llvm::errs() << "seed " << seed << describe("", {});

  std::string wrong = checkRaiseAndRestore(sample);
  if (!wrong.empty())
    return describe(wrong, {});

  auto pipeline = [&](OpPassManager &passes) {
    buildFusePipeline(passes, options);
  };
  OwningOpRef<ModuleOp> after = source.clone();
  wrong = runPasses(*after, pipeline);
  if (!wrong.empty())
    return describe(wrong, *after);
  FusionReport first = report;
  if (first.sites.size() != sample.getNumAllReduces())
    return describe("the report has " + std::to_string(first.sites.size()) +
                        " entries for " +
                        std::to_string(sample.getNumAllReduces()) +
                        " all-reduces",
                    *after);
  numFused += first.getNumFused();
  numMissed += first.getNumMissed();
  for (const FusionSite &site : first.sites)
    if (site.fused) {
      ++numGuards[static_cast<int>(options.guard)];
      numPatterns[site.pattern == "all_reduce_rms_norm"       ? 0
                  : site.pattern == "all_reduce_add_rms_norm" ? 1
                                                              : 2] = true;
    }

  std::string text = print(*after);
  if (first.getNumFused() == 0 && !options.mergeAllReduces && text != before)
    return describe("nothing fused, but the module has changed", *after);
  wrong = checkRuns(sample, *after, random);
  if (!wrong.empty())
    return describe(wrong, *after);

  OwningOpRef<ModuleOp> again = after->clone();
  wrong = runPasses(*again, pipeline);
  if (!wrong.empty())
    return describe("second time: " + wrong, *after);
  if (print(*again) != text)
    return describe("the second time changes the module; after it:\n" +
                        print(*again),
                    *after);
  return {};
}

TEST_F(PropertyTest, PassesKeepTheMeaning) {
  uint64_t first = getSetting("TANDEM_PROPERTY_SEED", 1);
  uint64_t count = getSetting("TANDEM_PROPERTY_COUNT", 3000);
  unsigned failures = 0;
  for (uint64_t seed = first; seed != first + count; ++seed) {
    std::string wrong = check(seed);
    if (wrong.empty())
      continue;
    ADD_FAILURE() << "seed " << seed << ": " << wrong;
    if (++failures == getSetting("TANDEM_PROPERTY_FAILURES", 3))
      break;
  }
  RecordProperty("fused", numFused);
  RecordProperty("missed", numMissed);
  if (std::getenv("TANDEM_PROPERTY_COUNT"))
    llvm::outs() << count << " modules, " << numFused << " all-reduces fused, "
                 << numMissed << " missed; " << numFusedRuns
                 << " runs took a fused path, " << numFallbackRuns << " none\n";
  // A generator that makes nothing to fuse would prove nothing.
  if (count < 1000)
    return;
  EXPECT_GT(numFused, count / 4);
  EXPECT_GT(numMissed, count / 4);
  EXPECT_GT(numFusedRuns, count / 8);
  EXPECT_GT(numFallbackRuns, count / 8);
  for (unsigned fused : numGuards)
    EXPECT_GT(fused, count / 50);
  for (bool seen : numPatterns)
    EXPECT_TRUE(seen);
}
