//===- PatternsTest.cpp - Raising one op at a time, and restoring ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/Passes/Raise.h"
#include "tandem/Passes/Restore.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

/// One layer's chain. The Relu stands inside of the norm.
const char *layer = R"(
func.func @f(%x: tensor<4x8xf32>, %h: tensor<4x8xf32>, %g: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "onnx.Add"(%h, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "onnx.Mul"(%1, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "onnx.ReduceMean"(%2) {axes = [-1]} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %4 = "onnx.Constant"() {value_float = 0.5 : f32} : () -> tensor<f32>
  %5 = "onnx.Add"(%3, %4) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %6 = "onnx.Relu"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = "onnx.Sqrt"(%5) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %8 = "onnx.Div"(%1, %7) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %9 = "onnx.Mul"(%8, %g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %9, %6 : tensor<4x8xf32>, tensor<4x8xf32>
})";

class Patterns : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<func::FuncDialect, tensor::TensorDialect, OnnxDialect,
                        TandemDialect>();
    module = parseSourceString<ModuleOp>(layer, &context);
    ASSERT_TRUE(module);
  }

  std::string print() {
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    return text;
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

TEST_F(Patterns, GreedyDriver) {
  RewritePatternSet patterns(&context);
  populateRaisePatterns(patterns);
  // With no folding the driver finds nothing else to do.
  ASSERT_TRUE(succeeded(applyPatternsGreedily(
      *module, std::move(patterns),
      GreedyRewriteConfig().enableFolding(false).setRegionSimplificationLevel(
          GreedySimplifyRegionLevel::Disabled))));
  EXPECT_TRUE(succeeded(verify(*module)));
  EXPECT_EQ(count<AllReduceOp>(), 1u);
  EXPECT_EQ(count<AddOp>(), 1u);
  EXPECT_EQ(count<RMSNormOp>(), 1u);
  module->walk(
      [](Operation *op) { EXPECT_FALSE(op->hasAttr("source_positions")); });

  // Without positions the sources go to the places of the raised ops, so the
  // Relu now stands in front of the norm's ops. Nothing is lost.
  EXPECT_TRUE(restoreSourceOps(*module));
  EXPECT_TRUE(succeeded(verify(*module)));
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<std::string> names;
  for (Operation &op : function.front())
    names.push_back(op.getName().getStringRef().str());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "onnx.Custom", "onnx.Add", "onnx.Constant", "onnx.Relu",
                       "onnx.Mul", "onnx.ReduceMean", "onnx.Add", "onnx.Sqrt",
                       "onnx.Div", "onnx.Mul", "func.return"}));
}

TEST_F(Patterns, WholeModule) {
  std::string before = print();
  EXPECT_TRUE(raiseSourceOps(*module));
  EXPECT_TRUE(succeeded(verify(*module)));
  EXPECT_NE(print(), before);
  EXPECT_FALSE(raiseSourceOps(*module)) << "raising again finds nothing";
  EXPECT_TRUE(restoreSourceOps(*module));
  EXPECT_EQ(print(), before);
  EXPECT_FALSE(restoreSourceOps(*module)) << "nothing is left to restore";
}

/// The fuse pass asks at a sum whose norm has been raised, and whose source
/// ops therefore still use it.
TEST_F(Patterns, RaisedNormsAreNotMissing) {
  raiseSourceOps(*module);
  module->walk(
      [](AddOp op) { EXPECT_FALSE(explainMissingNorm(op.getResult())); });
}

} // namespace
