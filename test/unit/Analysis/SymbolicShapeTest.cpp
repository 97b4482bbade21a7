//===- SymbolicShapeTest.cpp - Proofs that hold, and that must not --------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/SymbolicShape.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxDialect/OnnxDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
class SymbolicShapeTest : public testing::Test {
protected:
  SymbolicShapeTest() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<TandemDialect, OnnxDialect, arith::ArithDialect,
                        func::FuncDialect, tensor::TensorDialect>();
  }

  /// Parses a function that returns the values to ask about.
  ValueRange parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
    func::FuncOp function = *module->getOps<func::FuncOp>().begin();
    return function.getBody().front().getTerminator()->getOperands();
  }

  /// Whether the two values that the function returns are proven to be of one
  /// shape, which must not depend on the order of asking.
  bool isProven(StringRef text) {
    ValueRange values = parse(text);
    ShapeAnalysis first, second;
    bool equal = first.provablyEqualShapes(values[0], values[1]);
    EXPECT_EQ(equal, second.provablyEqualShapes(values[1], values[0]));
    EXPECT_EQ(equal, first.provablyEqualShapes(values[0], values[1]));
    return equal;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

//===----------------------------------------------------------------------===//
// Types and names
//===----------------------------------------------------------------------===//

TEST_F(SymbolicShapeTest, Types) {
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<2x8xf32>, %b: tensor<2x8xf16>)
        -> (tensor<2x8xf32>, tensor<2x8xf16>) {
      return %a, %b : tensor<2x8xf32>, tensor<2x8xf16>
    })mlir"));
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<2x8xf32>, %b: tensor<1x8xf32>)
        -> (tensor<2x8xf32>, tensor<1x8xf32>) {
      return %a, %b : tensor<2x8xf32>, tensor<1x8xf32>
    })mlir"));
  // Two unknown sizes are two, also if their types are one.
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<2x8xf32>, %b: tensor<?x8xf32>)
        -> (tensor<2x8xf32>, tensor<?x8xf32>) {
      return %a, %b : tensor<2x8xf32>, tensor<?x8xf32>
    })mlir"));
  // Of another rank, of no known rank, no tensors.
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<8xf32>, %b: tensor<1x8xf32>)
        -> (tensor<8xf32>, tensor<1x8xf32>) {
      return %a, %b : tensor<8xf32>, tensor<1x8xf32>
    })mlir"));
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<*xf32>, %b: index) -> (tensor<*xf32>, index) {
      return %a, %b : tensor<*xf32>, index
    })mlir"));
}

TEST_F(SymbolicShapeTest, NamesOfArguments) {
  auto text = [](StringRef first, StringRef second) {
    return "func.func @f(%a: tensor<?x?x8xf32> {onnx.dim_params = \"" +
           first.str() + "\"}, %b: tensor<?x?x8xf32> {onnx.dim_params = \"" +
           second.str() +
           "\"}) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {\n"
           "return %a, %b : tensor<?x?x8xf32>, tensor<?x?x8xf32> }";
  };
  EXPECT_TRUE(isProven(text("0:batch,1:seq", "0:batch,1:seq")));
  EXPECT_TRUE(isProven(text("0:batch,1:seq", "1:seq,0:batch")));
  EXPECT_FALSE(isProven(text("0:batch,1:seq", "0:seq,1:batch")));
  EXPECT_FALSE(isProven(text("0:batch,1:seq", "0:batch")));
  EXPECT_FALSE(isProven(text("0:batch,1:seq", "0:batch,1:seq2")));
  // What can't be read teaches nothing, and a dim that isn't there neither.
  EXPECT_FALSE(isProven(text("batch,seq", "batch,seq")));
  EXPECT_FALSE(isProven(text("0:,1:", "0:,1:")));
  EXPECT_FALSE(isProven(text("7:batch,1:seq", "7:batch,1:seq")));
  EXPECT_FALSE(isProven(text(",,:,", ",,:,")));
}

TEST_F(SymbolicShapeTest, NamesOfResultsMergeSizes) {
  // %x and %y are called the same; so what was derived from either is one.
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %x = "onnx.Unknown"(%a) {tandem.dim_params = ["0:n"]}
          : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %p = "onnx.Relu"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %y = "onnx.Unknown"(%b) {tandem.dim_params = ["0:n"]}
          : (tensor<?x8xf32>) -> tensor<?x8xf32>
      %q = "onnx.Neg"(%y) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %p, %q : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %x:2 = "onnx.Unknown"(%a) {tandem.dim_params = ["0:n", ""]}
          : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
      return %x#0, %x#1 : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  // Unknown ops say nothing of shapes without names.
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %x = "onnx.Unknown"(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %a, %x : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
}

//===----------------------------------------------------------------------===//
// Ops that keep shapes, and broadcasts
//===----------------------------------------------------------------------===//

TEST_F(SymbolicShapeTest, OpsThatKeepShapes) {
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x?xf32>, %g: tensor<?xf32>)
        -> (tensor<?x?xf32>, tensor<?x?xf32>) {
      %0 = tandem.all_reduce %a : tensor<?x?xf32>
      %1 = tandem.rms_norm %0, %g {epsilon = 0.5 : f64}
          : tensor<?x?xf32>, tensor<?xf32>
      %2 = tandem.add %1, %a : tensor<?x?xf32>
      %3 = "onnx.Identity"(%2) : (tensor<?x?xf32>) -> tensor<?x?xf32>
      %4 = "onnx.Custom"(%3) {function_name = "AllReduce",
                              domain_name = "com.microsoft"}
          : (tensor<?x?xf32>) -> tensor<?x?xf32>
      return %a, %4 : tensor<?x?xf32>, tensor<?x?xf32>
    })mlir"));
  // The op of this name in another domain is another op.
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
      %0 = "onnx.Custom"(%a) {function_name = "Relu", domain_name = "mine"}
          : (tensor<?xf32>) -> tensor<?xf32>
      return %a, %0 : tensor<?xf32>, tensor<?xf32>
    })mlir"));
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x?xf32>) {
      %0 = tensor.cast %a : tensor<?x8xf32> to tensor<?x?xf32>
      return %a, %0 : tensor<?x8xf32>, tensor<?x?xf32>
    })mlir"));
}

TEST_F(SymbolicShapeTest, Broadcasts) {
  // A row changes no shape.
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %r: tensor<8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0 = "onnx.Add"(%r, %a)
          : (tensor<8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      return %a, %0 : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  // Either of two unknown sizes may be 1.
  for (StringRef result : {"%a", "%b"})
    EXPECT_FALSE(isProven((R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0 = "onnx.Add"(%a, %b)
          : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      return %0, )mlir" + result +
                           " : tensor<?x8xf32>, tensor<?x8xf32>\n}")
                              .str()));
  // But a size fits itself.
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0 = "onnx.Add"(%a, %a)
          : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
      return %0, %a : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  // A known size other than 1 is the result's; that says nothing of the other
  // operand, which may be 1.
  EXPECT_FALSE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0 = "onnx.Add"(%a, %b)
          : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
      return %0, %a : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir"));
  EXPECT_TRUE(isProven(R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>)
        -> (tensor<?x8xf32>, tensor<4x8xf32>) {
      %0 = "onnx.Add"(%a, %b)
          : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
      return %0, %b : tensor<?x8xf32>, tensor<4x8xf32>
    })mlir"));
}

//===----------------------------------------------------------------------===//
// Reshapes and the arithmetic of shapes
//===----------------------------------------------------------------------===//

TEST_F(SymbolicShapeTest, ReshapeToConstants) {
  auto text = [](StringRef shape, StringRef attrs = "") {
    return (R"mlir(
    func.func @f(%a: tensor<?x4x8xf32>, %b: tensor<?x4x8xf32>)
        -> (tensor<?x4x8xf32>, tensor<?x?x?xf32>) {
      %s = "onnx.Constant"() {value = dense<[)mlir" +
            shape + R"mlir(]> : tensor<3xi64>} : () -> tensor<3xi64>
      %0 = "onnx.Reshape"(%a, %s) {)mlir" +
            attrs + R"mlir(}
          : (tensor<?x4x8xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
      return %a, %0 : tensor<?x4x8xf32>, tensor<?x?x?xf32>
    })mlir")
        .str();
  };
  EXPECT_TRUE(isProven(text("-1, 4, 8")));
  EXPECT_TRUE(isProven(text("0, 4, 8")));
  EXPECT_TRUE(isProven(text("0, -1, 8")));
  EXPECT_TRUE(isProven(text("0, 0, 0")));
  EXPECT_FALSE(isProven(text("-1, 2, 8")));
  EXPECT_FALSE(isProven(text("4, -1, 8")));
  EXPECT_FALSE(isProven(text("1, 4, 8")));
  // With allowzero a 0 is a size.
  EXPECT_FALSE(isProven(text("0, 4, 8", "allowzero = 1 : si64")));
  EXPECT_TRUE(isProven(text("-1, 4, 8", "allowzero = 1 : si64")));
}

TEST_F(SymbolicShapeTest, Products) {
  // [b, s, 8] -> [b * s, 8] -> [b, s, 8], the way back by a computed shape.
  StringRef prefix = R"mlir(
    func.func @f(%a: tensor<?x?x8xf32>, %b: tensor<?x?x8xf32>)
        -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
      %c0 = "onnx.Constant"() {value = dense<[0]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c1 = "onnx.Constant"() {value = dense<[1]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c8 = "onnx.Constant"() {value = dense<[8]> : tensor<1xi64>} : () -> tensor<1xi64>
      %m1 = "onnx.Constant"() {value = dense<[-1]> : tensor<1xi64>} : () -> tensor<1xi64>
      %two = "onnx.Constant"() {value = dense<[-1, 8]> : tensor<2xi64>} : () -> tensor<2xi64>
      %flat = "onnx.Reshape"(%a, %two) : (tensor<?x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
      %sa = "onnx.Shape"(%a) : (tensor<?x?x8xf32>) -> tensor<3xi64>
      %sb = "onnx.Shape"(%b) : (tensor<?x?x8xf32>) -> tensor<3xi64>
      %a0 = "onnx.Gather"(%sa, %c0) : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
      %a1 = "onnx.Gather"(%sa, %c1) : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
      %b0 = "onnx.Gather"(%sb, %c0) : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
)mlir";
  auto text = [&](StringRef parts) {
    return (prefix + "%s = \"onnx.Concat\"(" + parts +
            R"mlir() {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
      %r = "onnx.Reshape"(%flat, %s) : (tensor<?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
      return %a, %r : tensor<?x?x8xf32>, tensor<?x?x8xf32>
    })mlir")
        .str();
  };
  EXPECT_TRUE(isProven(text("%a0, %a1, %c8")));
  EXPECT_TRUE(isProven(text("%a0, %m1, %c8")));
  EXPECT_TRUE(isProven(text("%m1, %a1, %c8")));
  EXPECT_TRUE(isProven(text("%a0, %a1, %m1")));
  // The other way round it is another shape, and another tensor's dim may be
  // another size.
  EXPECT_FALSE(isProven(text("%a1, %a0, %c8")));
  EXPECT_FALSE(isProven(text("%b0, %m1, %c8")));
  EXPECT_FALSE(isProven(text("%m1, %b0, %c8")));
}

TEST_F(SymbolicShapeTest, ShapesOfShapes) {
  // Slice and arithmetic of constants are followed; a sum with an unknown size
  // is not, nor is a quotient.
  auto text = [](StringRef ops) {
    return (R"mlir(
    func.func @f(%a: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %c0 = "onnx.Constant"() {value = dense<[0]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c1 = "onnx.Constant"() {value = dense<[1]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c2 = "onnx.Constant"() {value = dense<[2]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c8 = "onnx.Constant"() {value = dense<[8]> : tensor<1xi64>} : () -> tensor<1xi64>
      %sa = "onnx.Shape"(%a) : (tensor<?x8xf32>) -> tensor<2xi64>
      %n = "onnx.Slice"(%sa, %c0, %c1, %c0) : (tensor<2xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
)mlir" + ops +
            R"mlir(
      %s = "onnx.Concat"(%x, %c8) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
      %z = "onnx.ConstantOfShape"(%s) : (tensor<2xi64>) -> tensor<?x8xf32>
      return %a, %z : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir")
        .str();
  };
  auto binary = [&](StringRef op, StringRef lhs, StringRef rhs) {
    return text(("%x = \"onnx." + op + "\"(" + lhs + ", " + rhs +
                 ") : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>")
                    .str());
  };
  EXPECT_TRUE(isProven(binary("Mul", "%n", "%c1")));
  EXPECT_TRUE(isProven(text("%y = \"onnx.Sub\"(%c2, %c1) : (tensor<1xi64>, "
                            "tensor<1xi64>) -> tensor<1xi64>\n"
                            "%x = \"onnx.Mul\"(%y, %n) : (tensor<1xi64>, "
                            "tensor<1xi64>) -> tensor<1xi64>")));
  EXPECT_TRUE(isProven(text("%x = \"onnx.Identity\"(%n) : (tensor<1xi64>) -> "
                            "tensor<1xi64>")));
  EXPECT_FALSE(isProven(binary("Mul", "%n", "%c2")));
  EXPECT_FALSE(isProven(binary("Add", "%n", "%c1")));
  EXPECT_FALSE(isProven(binary("Sub", "%n", "%c1")));
  EXPECT_FALSE(isProven(binary("Div", "%n", "%c2")));
  EXPECT_FALSE(isProven(text("%x = \"onnx.Slice\"(%sa, %c1, %c2, %c0) : "
                             "(tensor<2xi64>, tensor<1xi64>, tensor<1xi64>, "
                             "tensor<1xi64>) -> tensor<1xi64>")));
}

TEST_F(SymbolicShapeTest, OtherOps) {
  auto text = [](StringRef ops, StringRef type) {
    return ("func.func @f(%a: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> "
            "(tensor<?x?xf32>, " +
            type + ") {\n" + ops + "\nreturn %a, %z : tensor<?x?xf32>, " +
            type + "\n}")
        .str();
  };
  StringRef matrix = "tensor<?x?xf32>";
  EXPECT_FALSE(isProven(text("%z = \"onnx.Transpose\"(%a) {perm = [1, 0]} : "
                             "(tensor<?x?xf32>) -> tensor<?x?xf32>",
                             matrix)));
  EXPECT_TRUE(isProven(text("%y = \"onnx.Transpose\"(%a) {perm = [1, 0]} : "
                            "(tensor<?x?xf32>) -> tensor<?x?xf32>\n"
                            "%z = \"onnx.Transpose\"(%y) {perm = [1, 0]} : "
                            "(tensor<?x?xf32>) -> tensor<?x?xf32>",
                            matrix)));
  // The rows of a product are the first factor's, the columns the second's.
  EXPECT_FALSE(isProven(text("%z = \"onnx.MatMul\"(%a, %w) : "
                             "(tensor<?x?xf32>, tensor<?x?xf32>) -> "
                             "tensor<?x?xf32>",
                             matrix)));
  ValueRange values =
      parse(text("%z = \"onnx.MatMul\"(%a, %w) : (tensor<?x?xf32>, "
                 "tensor<?x?xf32>) -> tensor<?x?xf32>",
                 matrix));
  ShapeAnalysis shapes;
  EXPECT_TRUE(shapes.provablyEqualDims(values[0], 0, values[1], 0));
  EXPECT_FALSE(shapes.provablyEqualDims(values[0], 1, values[1], 1));
  EXPECT_FALSE(shapes.provablyEqualDims(values[0], 7, values[1], 7));
  // A Concat grows its axis.
  EXPECT_FALSE(isProven(text("%z = \"onnx.Concat\"(%a, %w) {axis = 0 : si64} "
                             ": (tensor<?x?xf32>, tensor<?x?xf32>) -> "
                             "tensor<?x?xf32>",
                             matrix)));
  EXPECT_FALSE(isProven(text("%y:2 = \"onnx.Split\"(%a) {axis = 0 : si64} : "
                             "(tensor<?x?xf32>) -> (tensor<?x?xf32>, "
                             "tensor<?x?xf32>)\n"
                             "%z = \"onnx.Relu\"(%y#0) : (tensor<?x?xf32>) -> "
                             "tensor<?x?xf32>",
                             matrix)));
}

TEST_F(SymbolicShapeTest, CollapsedAndExpanded) {
  auto text = [](StringRef ops) {
    return ("func.func @f(%a: tensor<?x4x8xf32>, %n: index, %m: index) -> "
            "(tensor<?x4x8xf32>, tensor<?x4x8xf32>) {\n" +
            ops + "\nreturn %a, %z : tensor<?x4x8xf32>, tensor<?x4x8xf32>\n}")
        .str();
  };
  StringRef collapse = "%y = tensor.collapse_shape %a [[0, 1], [2]] : "
                       "tensor<?x4x8xf32> into tensor<?x8xf32>\n";
  EXPECT_TRUE(isProven(
      text((collapse + "%z = tensor.expand_shape %y [[0, 1], [2]] output_shape "
                       "[%n, 4, 8] : tensor<?x8xf32> into tensor<?x4x8xf32>")
               .str())));
  // What was not whole before is another size.
  EXPECT_FALSE(isProven(
      text((collapse + "%x = tensor.expand_shape %y [[0, 1], [2]] output_shape "
                       "[%n, 2, 8] : tensor<?x8xf32> into tensor<?x2x8xf32>\n"
                       "%w = tensor.cast %x : tensor<?x2x8xf32> to "
                       "tensor<?x?x8xf32>\n"
                       "%z = tensor.cast %w : tensor<?x?x8xf32> to "
                       "tensor<?x4x8xf32>")
               .str())));
  // Of two unknown sizes of one group, what tensor.dim says of them counts.
  std::string matrix = R"mlir(
    func.func @f(%a: tensor<?x?x8xf32>, %n: index)
        -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %d0 = tensor.dim %a, %c0 : tensor<?x?x8xf32>
      %d1 = tensor.dim %a, %c1 : tensor<?x?x8xf32>
      %y = tensor.collapse_shape %a [[0, 1], [2]]
          : tensor<?x?x8xf32> into tensor<?x8xf32>
      %z = tensor.expand_shape %y [[0, 1], [2]] output_shape [%d0, SIZE, 8]
          : tensor<?x8xf32> into tensor<?x?x8xf32>
      return %a, %z : tensor<?x?x8xf32>, tensor<?x?x8xf32>
    })mlir";
  auto withSize = [&](StringRef size) {
    std::string result = matrix;
    result.replace(result.find("SIZE"), 4, size);
    return result;
  };
  EXPECT_TRUE(isProven(withSize("%d1")));
  EXPECT_FALSE(isProven(withSize("%d0")));
  EXPECT_FALSE(isProven(withSize("%n")));
  // Without it they share what there is in any way.
  EXPECT_FALSE(isProven(
      text((collapse + "%x = tensor.expand_shape %y [[0, 1], [2]] output_shape "
                       "[%n, %m, 8] : tensor<?x8xf32> into tensor<?x?x8xf32>\n"
                       "%z = tensor.cast %x : tensor<?x?x8xf32> to "
                       "tensor<?x4x8xf32>")
               .str())));
}

TEST_F(SymbolicShapeTest, VariadicAllReducesPairOperandsWithResults) {
  StringRef text = R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %0:4 = "onnx.Custom"(%a, %a, %a, %b)
          {function_name = "NcclAllReduce", domain_name = "com.microsoft"}
          : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>,
             tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>,
             tensor<?x8xf32>, tensor<?x8xf32>)
      return RETURNED : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir";
  auto returned = [&](StringRef values) {
    auto [head, tail] = text.split("RETURNED");
    return (head + values + tail).str();
  };
  EXPECT_TRUE(isProven(returned("%b, %0#3")));
  EXPECT_TRUE(isProven(returned("%a, %0#1")));
  EXPECT_FALSE(isProven(returned("%a, %0#3")));
}

TEST_F(SymbolicShapeTest, NarrowCastsCutConstants) {
  // 2^32 + 2 is 2 in 32 bits, and a Reshape to it is one to 2.
  auto text = [](StringRef constant) {
    return (R"mlir(
    func.func @f(%a: tensor<?x8xf32>, %b: tensor<16xf32>)
        -> (tensor<?x8xf32>, tensor<?x8xf32>) {
      %c = "onnx.Constant"() {value = dense<[)mlir" +
            constant + R"mlir(]> : tensor<1xi64>} : () -> tensor<1xi64>
      %c8 = "onnx.Constant"() {value = dense<[8]> : tensor<1xi64>} : () -> tensor<1xi64>
      %n = "onnx.Cast"(%c) {to = i32} : (tensor<1xi64>) -> tensor<1xi32>
      %w = "onnx.Cast"(%n) {to = i64} : (tensor<1xi32>) -> tensor<1xi64>
      %s = "onnx.Concat"(%w, %c8) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
      %x = "onnx.Reshape"(%b, %s) : (tensor<16xf32>, tensor<2xi64>) -> tensor<?x8xf32>
      %s2 = "onnx.Concat"(%c, %c8) {axis = 0 : si64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
      %y = "onnx.ConstantOfShape"(%s2) : (tensor<2xi64>) -> tensor<?x8xf32>
      return %x, %y : tensor<?x8xf32>, tensor<?x8xf32>
    })mlir")
        .str();
  };
  EXPECT_TRUE(isProven(text("2")));
  EXPECT_FALSE(isProven(text("4294967298")));
}

TEST_F(SymbolicShapeTest, MalformedOpsTeachNothing) {
  for (StringRef op :
       {"\"onnx.Reshape\"() : () -> tensor<?xf32>",
        "\"onnx.Add\"(%a) : (tensor<?xf32>) -> tensor<?xf32>",
        "\"onnx.Gather\"(%a) : (tensor<?xf32>) -> tensor<?xf32>",
        "\"onnx.Transpose\"(%a) {perm = [5]} : (tensor<?xf32>) -> "
        "tensor<?xf32>",
        "\"onnx.Concat\"(%a) {axis = 9 : si64} : (tensor<?xf32>) -> "
        "tensor<?xf32>",
        "\"onnx.Relu\"() : () -> tensor<?xf32>",
        "\"onnx.MatMul\"(%a, %a) : (tensor<?xf32>, tensor<?xf32>) -> "
        "tensor<?xf32>",
        "\"onnx.Squeeze\"(%a) {axes = [0, 0]} : (tensor<?xf32>) -> "
        "tensor<?xf32>"}) {
    ValueRange values = parse(
        ("func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {\n%0 = " + op +
         "\nreturn %0 : tensor<?xf32> }")
            .str());
    ShapeAnalysis shapes;
    std::optional<SmallVector<SymbolicDim>> shape = shapes.getShape(values[0]);
    ASSERT_TRUE(shape) << op.str();
    EXPECT_EQ(shape->size(), 1u) << op.str();
  }
}

//===----------------------------------------------------------------------===//
// Token counts
//===----------------------------------------------------------------------===//

TEST_F(SymbolicShapeTest, TokenCounts) {
  ValueRange values = parse(R"mlir(
    func.func @f(%a: tensor<?x3x?x8xf32>, %b: tensor<8xf32>, %c: tensor<f32>,
                 %d: tensor<*xf32>,
                 %e: tensor<4294967296x4294967296x8xf32>)
        -> (tensor<?x3x?x8xf32>, tensor<8xf32>, tensor<f32>, tensor<*xf32>,
            tensor<4294967296x4294967296x8xf32>, tensor<?x8xf32>) {
      %s = "onnx.Constant"() {value = dense<[-1, 8]> : tensor<2xi64>}
          : () -> tensor<2xi64>
      %r = "onnx.Reshape"(%a, %s)
          : (tensor<?x3x?x8xf32>, tensor<2xi64>) -> tensor<?x8xf32>
      return %a, %b, %c, %d, %e, %r
          : tensor<?x3x?x8xf32>, tensor<8xf32>, tensor<f32>, tensor<*xf32>,
            tensor<4294967296x4294967296x8xf32>, tensor<?x8xf32>
    })mlir");
  ShapeAnalysis shapes;
  std::optional<SymbolicDim> tokens = shapes.getTokenCount(values[0]);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->coefficient, 3);
  EXPECT_EQ(tokens->atoms.size(), 2u);
  // One row is one token.
  EXPECT_EQ(shapes.getTokenCount(values[1]), SymbolicDim::constant(1));
  EXPECT_FALSE(shapes.getTokenCount(values[2]));
  EXPECT_FALSE(shapes.getTokenCount(values[3]));
  // 2^64 does not fit.
  EXPECT_FALSE(shapes.getTokenCount(values[4]));
  // A reshape that keeps rows keeps their number.
  std::optional<SymbolicDim> flat = shapes.getTokenCount(values[5]);
  ASSERT_TRUE(flat);
  EXPECT_EQ(shapes.canonicalize(*flat), shapes.canonicalize(*tokens));
}

//===----------------------------------------------------------------------===//
// Size
//===----------------------------------------------------------------------===//

TEST_F(SymbolicShapeTest, DeclaredTokenCounts) {
  ValueRange values = parse(R"mlir(
    func.func @f(%a: tensor<?x?x8xf32> {onnx.dim_params = "0:b,1:s"},
                 %b: tensor<?x8xf32> {onnx.dim_params = "1:s"},
                 %c: tensor<?x3x?x8xf32>
                     {onnx.dim_params = "0:b,1:three,2:s"}, %d: f32)
        -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x8xf32>,
            tensor<?x3x?x8xf32>, f32) {
      %0 = "onnx.Neg"(%a) : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
      return %a, %0, %b, %c, %d
          : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x8xf32>,
            tensor<?x3x?x8xf32>, f32
    })mlir");
  ShapeAnalysis shapes;
  std::optional<SymbolicDim> named = shapes.getDeclaredTokenCount(values[0]);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->coefficient, 1);
  EXPECT_EQ(named->atoms.size(), 2u);
  EXPECT_EQ(named, shapes.getTokenCount(values[0]));
  // What ops do to shapes is not looked at; only the last dim has a name; a
  // size goes before a name.
  EXPECT_FALSE(shapes.getDeclaredTokenCount(values[1]));
  EXPECT_EQ(named, shapes.getTokenCount(values[1]));
  EXPECT_FALSE(shapes.getDeclaredTokenCount(values[2]));
  std::optional<SymbolicDim> threefold =
      shapes.getDeclaredTokenCount(values[3]);
  ASSERT_TRUE(threefold);
  EXPECT_EQ(threefold->coefficient, 3);
  EXPECT_EQ(threefold->atoms, named->atoms);
  EXPECT_FALSE(shapes.getDeclaredTokenCount(values[4]));
}

TEST_F(SymbolicShapeTest, DeepGraphsNeedNoStackAndLinearTime) {
  // A chain of 100,000 ops, with names every now and then, so that chains of
  // merged sizes get long too.
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  auto type =
      RankedTensorType::get({ShapedType::kDynamic, 8}, builder.getF32Type());
  auto function = func::FuncOp::create(builder, loc, "f",
                                       builder.getFunctionType({type}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  Value first = function.getArgument(0), value = first;
  for (unsigned i = 0; i != 100000; ++i) {
    OperationState state(
        loc, i % 3 == 0 ? "onnx.Relu" : "onnx.Add",
        i % 3 == 0 ? ValueRange{value} : ValueRange{value, value}, {type});
    if (i % 16 == 0)
      state.addAttribute(
          "tandem.dim_params",
          builder.getStrArrayAttr({"0:n" + std::to_string(i % 1024)}));
    value = builder.create(state)->getResult(0);
  }
  func::ReturnOp::create(builder, loc);
  ShapeAnalysis shapes;
  EXPECT_TRUE(shapes.provablyEqualShapes(first, value));
  // Asked of every value once more, as matching does: quadratic work on this
  // many ops would not end before the test is stopped.
  for (Operation &op : function.getBody().front().without_terminator())
    ASSERT_TRUE(shapes.provablyEqualShapes(first, op.getResult(0)));
}
} // namespace
