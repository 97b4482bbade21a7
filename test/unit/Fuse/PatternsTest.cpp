//===- PatternsTest.cpp - Fusion by a driver of one's own -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Fuse.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Two chains, and an all-reduce that no norm follows.
const char *layers = R"(
func.func @f(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = tandem.all_reduce %x : tensor<?x8xf32>
  %1 = tandem.add %h, %0 : tensor<?x8xf32>
  %2 = tandem.rms_norm %1, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %3 = tandem.all_reduce %2 : tensor<?x8xf32>
  %4 = tandem.add %3, %1 : tensor<?x8xf32>
  %5 = tandem.rms_norm %4, %g {epsilon = 1.0e-5 : f64} : tensor<?x8xf32>, tensor<8xf32>
  %6 = tandem.all_reduce %5 : tensor<?x8xf32>
  return %4, %5, %6 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
})";

class FusePatterns : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<TandemDialect, arith::ArithDialect, func::FuncDialect,
                        scf::SCFDialect, tensor::TensorDialect>();
    module = parseSourceString<ModuleOp>(layers, &context);
    ASSERT_TRUE(module);
  }

  void apply(const TandemFuseOptions &options) {
    RewritePatternSet patterns(&context);
    llvm::Error error = populateFusePatterns(patterns, options);
    ASSERT_FALSE(error) << llvm::toString(std::move(error));
    ASSERT_TRUE(succeeded(applyPatternsGreedily(*module, std::move(patterns))));
    ASSERT_TRUE(succeeded(verify(*module)));
  }

  std::string refuse(const TandemFuseOptions &options) {
    RewritePatternSet patterns(&context);
    return llvm::toString(populateFusePatterns(patterns, options));
  }

  template <typename OpT>
  unsigned count() {
    unsigned number = 0;
    module->walk([&](OpT) { ++number; });
    return number;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(FusePatterns, FuseWhatThePassFuses) {
  TandemFuseOptions options;
  options.maxTokens = 64;
  apply(options);
  EXPECT_EQ(count<FusedAllReduceNormOp>(), 2u);
  EXPECT_EQ(count<scf::IfOp>(), 2u);
  unsigned fallbacks = 0;
  module->walk([&](AllReduceOp op) { fallbacks += op.getFallback(); });
  EXPECT_EQ(fallbacks, 2u);
  EXPECT_EQ(count<AllReduceOp>(), 3u);

  EXPECT_FALSE((*module)->hasAttr("tandem.signature"));
  writeSignature(*module);
  EXPECT_TRUE((*module)->hasAttr("tandem.signature"));

  // Once more changes nothing.
  std::string before, after;
  llvm::raw_string_ostream(before) << *module;
  apply(options);
  llvm::raw_string_ostream(after) << *module;
  EXPECT_EQ(before, after);
}

TEST_F(FusePatterns, OptionsDecide) {
  TandemFuseOptions options;
  options.worldSize = 1;
  apply(options);
  EXPECT_EQ(count<FusedAllReduceNormOp>(), 0u);
  EXPECT_EQ(count<AllReduceOp>(), 3u);
}

TEST_F(FusePatterns, WhatIsOfAWholeModuleIsRefused) {
  TandemFuseOptions options;
  options.guard = GuardKind::Function;
  EXPECT_EQ(refuse(options), "guard=function needs the pass tandem-fuse");
  options = {};
  options.mergeAllReduces = true;
  EXPECT_EQ(refuse(options), "merge-all-reduces needs the pass tandem-fuse");
  options = {};
  options.reportFile = "report.json";
  EXPECT_EQ(refuse(options), "report needs the pass tandem-fuse");
  options = {};
  options.require = RequireKind::All;
  EXPECT_EQ(refuse(options), "require=all needs the pass tandem-fuse");
  options = {};
  options.maxTokens = 0;
  EXPECT_EQ(refuse(options), "max-tokens must be positive, or -1 for the "
                             "runtime's limit alone, not 0");
}
} // namespace
