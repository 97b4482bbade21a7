//===- OnnxNodeTest.cpp - Nodes, attributes and types by name -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

class OnnxNodes : public ::testing::Test {
protected:
  OnnxNodes() {
    context.loadDialect<OnnxDialect>();
    context.allowUnregisteredDialects();
  }

  /// The last op of a text.
  OnnxNode parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    return module && !module->getBody()->empty()
               ? OnnxNode(&module->getBody()->back())
               : OnnxNode();
  }

  RankedTensorType rankedType(StringRef text) {
    return getRankedTensorType(parseType(text, &context));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(OnnxNodes, Spellings) {
  EXPECT_TRUE(parse(R"("onnx.Add"() : () -> ())").is("Add"));
  EXPECT_TRUE(parse(R"("onnx.ReduceMeanV13"() : () -> ())").is("ReduceMean"));
  EXPECT_TRUE(
      parse(R"("torch.operator"() {name = "onnx.Add"} : () -> ())").is("Add"));
  EXPECT_TRUE(parse(R"("torch.operator"() <{name = "onnx.Add"}> : () -> ())")
                  .is("Add"));
  EXPECT_FALSE(parse(R"("onnx.Adder"() : () -> ())").is("Add"));
  EXPECT_FALSE(parse(R"("tosa.Add"() : () -> ())"));
  EXPECT_FALSE(parse(R"("torch.operator"() {name = "aten.add"} : () -> ())"));
  EXPECT_FALSE(parse(R"("torch.operator"() : () -> ())"));
  // Only digits behind a V are a version.
  EXPECT_TRUE(parse(R"("onnx.GRUV"() : () -> ())").is("GRUV"));
  EXPECT_TRUE(parse(R"("onnx.ReduceL2"() : () -> ())").is("ReduceL2"));
}

TEST_F(OnnxNodes, DomainsStayApart) {
  OnnxNode node = parse(
      R"("onnx.Custom"() {function_name = "Add", domain_name = "com.microsoft"} : () -> ())");
  EXPECT_FALSE(node.is("Add"));
  EXPECT_TRUE(node.is("Add", "com.microsoft"));
  EXPECT_FALSE(node.is("Add", "com.acme"));
  node = parse(
      R"("onnx.Custom"() {function_name = "Add", domain_name = "ai.onnx"} : () -> ())");
  EXPECT_TRUE(node.is("Add"));
  // Without a function name there is nothing to go by.
  EXPECT_FALSE(
      parse(R"("onnx.Custom"() {domain_name = "com.microsoft"} : () -> ())"));
  // torch.operator does not say the domain.
  node = parse(R"("torch.operator"() {name = "onnx.AllReduce"} : () -> ())");
  EXPECT_TRUE(node.is("AllReduce", "com.microsoft"));
}

TEST_F(OnnxNodes, Attributes) {
  OnnxNode node = parse(R"("onnx.Op"() {a = 3 : si64, b = -3 : i64, c = 7 : ui8,
      d = 2.0 : f32, e = "text", f = [1, -2], g = array<i64: 1, -2>, h = [1.0 : f32]} : () -> ())");
  EXPECT_EQ(node.getInt("a"), 3);
  EXPECT_EQ(node.getInt("b"), -3);
  EXPECT_EQ(node.getInt("c"), 7);
  EXPECT_EQ(node.getInt("d"), std::nullopt);
  EXPECT_EQ(node.getFloat("d"), 2.0);
  EXPECT_EQ(node.getFloat("a"), std::nullopt);
  EXPECT_EQ(node.getString("e"), "text");
  EXPECT_EQ(node.getString("absent"), std::nullopt);
  SmallVector<int64_t> expected = {1, -2};
  EXPECT_EQ(node.getInts("f"), expected);
  EXPECT_EQ(node.getInts("g"), expected);
  EXPECT_EQ(node.getInts("h"), std::nullopt);
  EXPECT_EQ(node.getInts("a"), std::nullopt);
  node = parse(
      R"("torch.operator"() {name = "onnx.Op", torch.onnx.a = 3 : si64} : () -> ())");
  EXPECT_EQ(node.getInt("a"), 3);
}

TEST_F(OnnxNodes, AbsentInputs) {
  OnnxNode node = parse(R"(
    %0 = "onnx.NoValue"() {value} : () -> none
    %1 = "onnx.Constant"() : () -> tensor<f32>
    "onnx.Op"(%1, %0) : (tensor<f32>, none) -> ())");
  EXPECT_TRUE(node.getInput(0));
  EXPECT_FALSE(node.getInput(1));
  EXPECT_FALSE(node.getInput(2));
  node = parse(R"(
    %0 = "torch.constant.none"() : () -> !torch.none
    "torch.operator"(%0) {name = "onnx.Op"} : (!torch.none) -> ())");
  EXPECT_FALSE(node.getInput(0));
}

TEST_F(OnnxNodes, TorchTypes) {
  auto f32 = Float32Type::get(&context);
  EXPECT_EQ(rankedType("!torch.vtensor<[?,4096],f32>"),
            RankedTensorType::get({ShapedType::kDynamic, 4096}, f32));
  EXPECT_EQ(rankedType("!torch.vtensor<[],f32>"),
            RankedTensorType::get({}, f32));
  EXPECT_EQ(rankedType("!torch.vtensor<[2],bf16>"),
            RankedTensorType::get({2}, BFloat16Type::get(&context)));
  EXPECT_EQ(rankedType("tensor<2xf32>"), RankedTensorType::get({2}, f32));
  for (const char *text :
       {"!torch.vtensor<*,f32>", "!torch.vtensor", "!torch.vtensor<[2],unk>",
        "!torch.tensor<[2],f32>", "!other.vtensor<[2],f32>", "tensor<*xf32>",
        "!torch.vtensor<[-2],f32>", "!torch.vtensor<[a],f32>", "none", "f32"})
    EXPECT_FALSE(rankedType(text)) << text;
}

TEST_F(OnnxNodes, NoopCasts) {
  OnnxNode node = parse(R"(
    %0 = "onnx.Constant"() : () -> tensor<2xf32>
    %1 = "onnx.Cast"(%0) {to = f32} : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "onnx.Identity"(%1) : (tensor<2xf32>) -> tensor<2xf32>
    %3 = "onnx.Cast"(%2) {to = bf16} : (tensor<2xf32>) -> tensor<2xbf16>
    "onnx.Op"(%2, %3) : (tensor<2xf32>, tensor<2xbf16>) -> ())");
  Value source = module->getBody()->front().getResult(0);
  EXPECT_EQ(lookThroughNoopCasts(node.getInput(0)), source);
  EXPECT_EQ(lookThroughNoopCasts(node.getInput(1)), node.getInput(1));
  // The types are equal, but nothing is known of them.
  node = parse(R"(
    %0 = "onnx.Constant"() : () -> none
    %1 = "onnx.Cast"(%0) {to = f32} : (none) -> none
    "onnx.Op"(%1) : (none) -> ())");
  EXPECT_EQ(lookThroughNoopCasts(node.getOperation()->getOperand(0)),
            node.getOperation()->getOperand(0));
}

} // namespace
