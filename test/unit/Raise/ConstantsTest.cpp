//===- ConstantsTest.cpp - Reading small constants ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

class Constants : public ::testing::Test {
protected:
  Constants() {
    context.loadDialect<arith::ArithDialect, func::FuncDialect, OnnxDialect,
                        TandemDialect>();
    context.allowUnregisteredDialects();
  }

  /// The value `%v` of ops in text form.
  Value parse(StringRef ops, StringRef resources = "") {
    std::string text = ops.str() + "\n\"test.use\"(%v) : (" + type +
                       ") -> ()\n" + resources.str();
    ParserConfig config(&context, /*verifyAfterParse=*/false);
    module = parseSourceString<ModuleOp>(text, config);
    Value value;
    if (module)
      module->walk([&](Operation *op) {
        if (op->getName().getStringRef() == "test.use")
          value = op->getOperand(0);
      });
    return value;
  }

  /// A constant of type `ty` with these attributes.
  Value constant(std::string ty, StringRef attrs, StringRef resources = "") {
    type = ty;
    return parse("%v = \"onnx.Constant\"() {" + attrs.str() + "} : () -> " + ty,
                 resources);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string type = "tensor<f32>";
};

TEST_F(Constants, ScalarsInEveryForm) {
  EXPECT_EQ(getConstantScalar(
                constant("tensor<f32>", "value = dense<2.0> : tensor<f32>")),
            2.0);
  EXPECT_EQ(getConstantScalar(constant("tensor<1xf16>",
                                       "value = dense<2.0> : tensor<1xf16>")),
            2.0);
  EXPECT_EQ(
      getConstantScalar(constant("tensor<1x1xbf16>",
                                 "value = dense<[[2.0]]> : tensor<1x1xbf16>")),
      2.0);
  EXPECT_EQ(getConstantScalar(
                constant("tensor<i64>", "value = dense<-3> : tensor<i64>")),
            -3.0);
  EXPECT_EQ(
      getConstantScalar(constant("tensor<f32>", "value_float = 2.0 : f32")),
      2.0);
  EXPECT_EQ(getConstantScalar(constant("tensor<i64>", "value_int = 2 : si64")),
            2.0);
  EXPECT_EQ(getConstantScalar(
                constant("tensor<1xf32>", "value_floats = [2.0 : f32]")),
            2.0);
  EXPECT_EQ(getConstantScalar(constant("tensor<1xi64>", "value_ints = [2]")),
            2.0);
  type = "tensor<f32>";
  EXPECT_EQ(
      getConstantScalar(parse("%v = arith.constant dense<2.0> : tensor<f32>")),
      2.0);
}

TEST_F(Constants, Torch) {
  type = "!torch.vtensor<[],f32>";
  EXPECT_EQ(
      getConstantScalar(parse(
          R"(%v = "torch.operator"() {name = "onnx.Constant", torch.onnx.value = dense<2.0> : tensor<f32>} : () -> !torch.vtensor<[],f32>)")),
      2.0);
  EXPECT_EQ(
      getConstantScalar(parse(
          R"(%v = "torch.vtensor.literal"() {value = dense<2.0> : tensor<f32>} : () -> !torch.vtensor<[],f32>)")),
      2.0);
}

TEST_F(Constants, EpsilonIsExact) {
  // f32 to f64 keeps every bit; in f16 this epsilon would not survive.
  EXPECT_EQ(getConstantScalar(constant(
                "tensor<f32>", "value = dense<1.562500e-07> : tensor<f32>")),
            static_cast<double>(1.5625e-07f));
  EXPECT_EQ(getConstantScalar(
                constant("tensor<f64>", "value = dense<1.0e-5> : tensor<f64>")),
            1e-5);
}

TEST_F(Constants, External) {
  auto external = [&](const char *ty, const std::string &more) {
    return constant(ty, R"(value = #tandem.external<"w", length = 4>)" + more);
  };
  const char *read = ", tandem.elements = dense<2.0> : tensor<f32>";
  EXPECT_EQ(getConstantScalar(external("tensor<f32>", read)), 2.0);
  EXPECT_FALSE(isUnreadConstant(external("tensor<f32>", read)));
  EXPECT_EQ(getConstantScalar(external("tensor<f32>", "")), std::nullopt);
  EXPECT_TRUE(isUnreadConstant(external("tensor<f32>", "")));
  // Not what the Constant's own type says.
  EXPECT_EQ(getConstantScalar(external("tensor<f64>", read)), std::nullopt);
  EXPECT_TRUE(isUnreadConstant(external("tensor<f64>", read)));
  // Weights; and constants that are not external.
  EXPECT_FALSE(isUnreadConstant(external("tensor<9xf32>", "")));
  EXPECT_FALSE(isUnreadConstant(external("tensor<?xf32>", "")));
  EXPECT_FALSE(isUnreadConstant(
      constant("tensor<f32>", "value = dense<2.0> : tensor<f32>")));
  // Beside a value that is given, the note says nothing.
  EXPECT_EQ(getConstantScalar(constant(
                "tensor<f32>", "value = dense<3.0> : tensor<f32>, "
                               "tandem.elements = dense<2.0> : tensor<f32>")),
            3.0);
}

TEST_F(Constants, Resources) {
  const char *resources = R"(
{-#
  dialect_resources: {
    builtin: {
      one: "0x040000000000803F",
      axes: "0x08000000FFFFFFFFFFFFFFFF",
      short: "0x0400000000"
    }
  }
#-})";
  EXPECT_EQ(getConstantScalar(constant(
                "tensor<f32>", "value = dense_resource<one> : tensor<f32>",
                resources)),
            1.0);
  auto axes = getConstantInts(
      constant("tensor<1xi64>", "value = dense_resource<axes> : tensor<1xi64>",
               resources));
  ASSERT_TRUE(axes);
  EXPECT_EQ(*axes, SmallVector<int64_t>{-1});
  EXPECT_EQ(getConstantScalar(constant(
                "tensor<f32>", "value = dense_resource<short> : tensor<f32>",
                resources)),
            std::nullopt);
  EXPECT_EQ(
      getConstantScalar(constant(
          "tensor<f32>", "value = dense_resource<missing> : tensor<f32>")),
      std::nullopt);
}

TEST_F(Constants, ThroughOps) {
  const char *scalar =
      R"(%c = "onnx.Constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
      %s = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>)";
  type = "tensor<1xi64>";
  for (
      const char *op :
      {R"(%v = "onnx.Reshape"(%c, %s) : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>)",
       R"(%v = "onnx.Unsqueeze"(%c, %s) : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>)",
       R"(%i = "onnx.Identity"(%c) : (tensor<i64>) -> tensor<i64>
           %v = "onnx.Reshape"(%i, %s) : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>)"}) {
    auto ints = getConstantInts(parse(std::string(scalar) + op));
    ASSERT_TRUE(ints);
    EXPECT_EQ(*ints, SmallVector<int64_t>{-1});
  }
  // A Cast to f16 rounds as it does at run time.
  type = "tensor<f16>";
  EXPECT_EQ(
      getConstantScalar(parse(
          R"(%c = "onnx.Constant"() {value = dense<1.0001> : tensor<f32>} : () -> tensor<f32>
                   %v = "onnx.Cast"(%c) {to = f16} : (tensor<f32>) -> tensor<f16>)")),
      1.0);
  type = "tensor<f32>";
  EXPECT_EQ(
      getConstantScalar(parse(
          R"(%c = "onnx.Constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
                   %v = "onnx.Cast"(%c) {to = f32} : (tensor<i64>) -> tensor<f32>)")),
      3.0);
}

TEST_F(Constants, NotConstant) {
  type = "tensor<f32>";
  EXPECT_EQ(getConstantScalar(Value()), std::nullopt);
  EXPECT_EQ(
      getConstantScalar(parse(R"(%v = "onnx.Sqrt"() : () -> tensor<f32>)")),
      std::nullopt);
  // More than one element is no scalar, and a long list is not read at all.
  EXPECT_EQ(getConstantScalar(constant("tensor<2xf32>",
                                       "value = dense<2.0> : tensor<2xf32>")),
            std::nullopt);
  EXPECT_FALSE(getSmallConstant(
      constant("tensor<9xi64>", "value = dense<1> : tensor<9xi64>")));
  EXPECT_EQ(
      getConstantScalar(constant("tensor<f32>", "value_string = \"2.0\"")),
      std::nullopt);
  EXPECT_EQ(getConstantScalar(constant("tensor<f32>", "")), std::nullopt);
  // Not a list: of rank 2, or of floats.
  EXPECT_EQ(getConstantInts(constant("tensor<1x1xi64>",
                                     "value = dense<1> : tensor<1x1xi64>")),
            std::nullopt);
  EXPECT_EQ(getConstantInts(constant("tensor<1xf32>",
                                     "value = dense<1.0> : tensor<1xf32>")),
            std::nullopt);
}

TEST_F(Constants, DeepChainsEnd) {
  std::string text =
      R"(%c0 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>)";
  for (int i = 1; i <= 100; ++i)
    text += "\n%c" + std::to_string(i) + " = \"onnx.Identity\"(%c" +
            std::to_string(i - 1) + ") : (tensor<f32>) -> tensor<f32>";
  text += "\n%v = \"onnx.Identity\"(%c100) : (tensor<f32>) -> tensor<f32>";
  type = "tensor<f32>";
  EXPECT_EQ(getConstantScalar(parse(text)), std::nullopt);
}

} // namespace
