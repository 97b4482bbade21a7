//===- LookAlikesTest.cpp - Why look-alikes are not raised ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/Passes/Raise.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

/// The functions of test/Raise/look-alikes.mlir, each with its reason.
class LookAlikes : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<func::FuncDialect, OnnxDialect, TandemDialect>();
    module = parseSourceFile<ModuleOp>(TANDEM_LOOK_ALIKES, &context);
    ASSERT_TRUE(module);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(LookAlikes, SayWhy) {
  unsigned count = 0;
  for (auto function : module->getOps<func::FuncOp>()) {
    SCOPED_TRACE(function.getName().str());
    auto why = function->getAttrOfType<StringAttr>("why");
    ASSERT_TRUE(why);
    std::optional<MatchFailure> failure =
        explainMissingNorm(function.getArgument(0));
    EXPECT_EQ(failure ? stringify(failure->reason) : "none", why.getValue());
    if (failure) {
      EXPECT_TRUE(failure->blocker);
      EXPECT_FALSE(describe(failure->reason).empty());
    }
    ++count;
  }
  EXPECT_GT(count, 80u);
}

TEST_F(LookAlikes, NoneMatches) {
  module->walk([](Operation *op) {
    MatchFailure why;
    EXPECT_TRUE(failed(matchRMSNorm(op, &why)));
    EXPECT_TRUE(failed(matchAllReduce(op)));
  });
}

TEST(Mismatch, TextsDiffer) {
  llvm::StringSet<> names, texts;
  for (int i = 0; i <= static_cast<int>(Mismatch::NoWait); ++i) {
    auto mismatch = static_cast<Mismatch>(i);
    EXPECT_TRUE(names.insert(stringify(mismatch)).second);
    EXPECT_TRUE(texts.insert(describe(mismatch)).second);
  }
}

/// The reason that an op of this text is not raised as an all-reduce, "raised"
/// if it is, "none" if it is none.
std::string explainAllReduce(StringRef text) {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, OnnxDialect, TandemDialect>();
  context.allowUnregisteredDialects();
  std::string source =
      "func.func @f(%x: tensor<4xf32>) {\n" + text.str() + "\nreturn\n}";
  auto module = parseSourceString<ModuleOp>(source, &context);
  if (!module)
    return "not parsed";
  std::string result = "none";
  module->walk([&](Operation *op) {
    std::optional<MatchFailure> why;
    if (succeeded(matchAllReduce(op, &why)))
      result = "raised";
    else if (why)
      result = stringify(why->reason).str();
  });
  return result;
}

TEST(AllReduce, SaysWhy) {
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"}
      : (tensor<4xf32>) -> tensor<4xf32>)"),
            "raised");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.Custom"(%x, %x) {domain_name = "com.microsoft", function_name = "AllReduce"}
      : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>))"),
            "SeveralInputs");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "AllReduce"}
      : (tensor<4xf32>) -> none)"),
            "TypeChanges");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.Custom"(%x) {domain_name = "com.acme", function_name = "AllReduce"}
      : (tensor<4xf32>) -> tensor<4xf32>)"),
            "none");
  // There is no such op in ai.onnx.
  EXPECT_EQ(explainAllReduce(
                R"("onnx.AllReduce"(%x) : (tensor<4xf32>) -> tensor<4xf32>)"),
            "none");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.Custom"(%x) {domain_name = "com.microsoft", function_name = "NcclAllReduce",
                       group_type = 6 : si64} : (tensor<4xf32>) -> tensor<4xf32>)"),
            "UnknownGroup");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "none"}
      : (tensor<4xf32>) -> tensor<4xf32>)"),
            "UnknownReduction");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.DistCollective"(%x) {collective_operation = "all_reduce", reduce_op = "sum",
                               groups = [0, 0]} : (tensor<4xf32>) -> tensor<4xf32>)"),
            "UnknownGroup");
  EXPECT_EQ(explainAllReduce(R"(
    "onnx.DistCollective"(%x) {collective_operation = "all_gather"}
      : (tensor<4xf32>) -> tensor<8xf32>)"),
            "none");
  EXPECT_EQ(explainAllReduce(R"(
    %0 = "onnx.Custom"(%x) {domain_name = "_c10d_functional", function_name = "all_reduce",
                            reduce_op = "sum", group_name = "tp"}
      : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>)"),
            "NoWait");
}

} // namespace
