//===- InterpreterTest.cpp - The interpreter that the property test trusts ===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::test;

namespace {
class InterpreterTest : public testing::Test {
protected:
  InterpreterTest() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<TandemDialect, arith::ArithDialect, func::FuncDialect,
                        scf::SCFDialect, tensor::TensorDialect>();
    context.allowUnregisteredDialects();
  }

  Outcome run(StringRef text, ArrayRef<RankValues> arguments,
              int64_t limit = 0) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return interpret(*module, "main", arguments, limit);
  }

  MLIRContext context;
};

RankValues make(ArrayRef<int64_t> shape, ArrayRef<std::vector<float>> ranks) {
  auto values = std::make_shared<std::vector<Data>>();
  for (const std::vector<float> &floats : ranks)
    values->push_back({SmallVector<int64_t, 4>(shape), floats, {}});
  return values;
}

TEST_F(InterpreterTest, RoundsToEveryType) {
  Builder builder(&context);
  Type f16 = builder.getF16Type(), bf16 = builder.getBF16Type();
  // Ties go to the even neighbour.
  EXPECT_EQ(roundTo(1 + 0x1p-8, bf16), 1.0f);
  EXPECT_EQ(roundTo(1 + 0x3p-8, bf16), 1 + 0x1p-6f);
  EXPECT_EQ(roundTo(1 + 0x1p-11, f16), 1.0f);
  // Once, not by way of f32: that would fall on the tie and go down.
  EXPECT_EQ(roundTo(1 + 0x1p-8 + 0x1p-40, bf16), 1 + 0x1p-7f);
  // Subnormals have fewer bits.
  EXPECT_EQ(roundTo(0x1.8p-24, f16), 0x1p-23f);
  EXPECT_EQ(roundTo(0x1p-26, f16), 0.0f);
  EXPECT_EQ(roundTo(0x1p-133, bf16), 0x1p-133f);
  // Beyond the largest is infinite.
  EXPECT_EQ(roundTo(65519, f16), 65504.0f);
  EXPECT_EQ(roundTo(65520, f16), HUGE_VALF);
  EXPECT_EQ(roundTo(-65520, f16), -HUGE_VALF);
  EXPECT_TRUE(std::signbit(roundTo(-0.0, f16)));
}

TEST_F(InterpreterTest, SumsInRankOrderInF32) {
  Outcome outcome = run(R"mlir(
    func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
      %0 = tandem.all_reduce %x : tensor<1xf32>
      return %0 : tensor<1xf32>
    })mlir",
                        make({1}, {{0x1p24f}, {1}, {1}}));
  ASSERT_EQ(outcome.error, "");
  // 2^24 + 1 falls on a tie and stays; in the other order it would not.
  for (const Data &data : *outcome.results[0])
    EXPECT_EQ(data.floats[0], 0x1p24f);
  EXPECT_EQ(outcome.trace.size(), 1u);
}

TEST_F(InterpreterTest, ComputesNorms) {
  // mean(9, 16, 0, 0) = 6.25
  Outcome outcome =
      run(R"mlir(
    func.func @main(%x: tensor<1x4xf32>, %g: tensor<4xf32>) -> tensor<1x4xf32> {
      %0 = tandem.rms_norm %x, %g {epsilon = 0.0 : f64}
          : tensor<1x4xf32>, tensor<4xf32>
      return %0 : tensor<1x4xf32>
    })mlir",
          {make({1, 4}, {{3, 4, 0, 0}}), make({4}, {{1, 2, 1, 1}})});
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.results[0]->front().floats,
            (std::vector<float>{3 / 2.5f, 2 * (4 / 2.5f), 0, 0}));
}

TEST_F(InterpreterTest, TellsRoundingsApart) {
  // x / rms lies between 1 and the next number, and is rounded to 1.
  auto norm = [&](StringRef rounding) {
    std::string text = "func.func @main(%x: tensor<1x2xbf16>, %g: "
                       "tensor<2xbf16>) -> tensor<1x2xbf16> {\n"
                       "%0 = tandem.rms_norm %x, %g {epsilon = 0.0 : f64, "
                       "rounding = #tandem<rounding " +
                       rounding.str() +
                       ">} : tensor<1x2xbf16>, tensor<2xbf16>\n"
                       "return %0 : tensor<1x2xbf16> }";
    Outcome outcome = run(
        text, {make({1, 2}, {{1.0078125f, 1}}), make({2}, {{1.0078125f, 1}})});
    EXPECT_EQ(outcome.error, "");
    return outcome.results[0]->front().floats[0];
  };
  EXPECT_NE(norm("before_gamma"), norm("after_gamma"));
}

TEST_F(InterpreterTest, MultipliesByGammaInF32) {
  // x / rms is 1, and gamma rounds to the even neighbour in bf16 only if the
  // product was rounded to f32 before: both roundings are to even, away from
  // the exact product (1 + 2^-23) * (1 + 2^-8 - 2^-23).
  std::string text = R"mlir(
    func.func @main(%x: tensor<1x2xbf16>, %g: tensor<2xf32>) -> (tensor<1x2xbf16>, tensor<1x2xbf16>) {
      %0 = tandem.rms_norm %x, %g {epsilon = 0.0 : f64, rounding = #tandem<rounding after_gamma>}
          : tensor<1x2xbf16>, tensor<2xf32>
      %1 = "onnx.Cast"(%x) {to = f32} : (tensor<1x2xbf16>) -> tensor<1x2xf32>
      %2 = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
      %3 = "onnx.Mul"(%1, %1) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
      %4 = "onnx.ReduceMean"(%3, %2) : (tensor<1x2xf32>, tensor<1xi64>) -> tensor<1x1xf32>
      %5 = "onnx.Sqrt"(%4) : (tensor<1x1xf32>) -> tensor<1x1xf32>
      %6 = "onnx.Div"(%1, %5) : (tensor<1x2xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
      %7 = "onnx.Mul"(%6, %g) : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
      %8 = "onnx.Cast"(%7) {to = bf16} : (tensor<1x2xf32>) -> tensor<1x2xbf16>
      return %0, %8 : tensor<1x2xbf16>, tensor<1x2xbf16>
    })mlir";
  unsigned numDifferent = 0;
  for (unsigned i = 0; i != 4096; ++i) {
    float gamma = 1.0f + static_cast<float>(i) * 0x1p-12f + 0x1p-23f;
    float x = 1.0f + static_cast<float>(i % 128) * 0x1p-7f;
    Outcome outcome =
        run(text, {make({1, 2}, {{x, 1.5f}}), make({2}, {{gamma, 1}})});
    ASSERT_EQ(outcome.error, "");
    // The source's ops and the op agree on every bit.
    EXPECT_EQ(outcome.results[0]->front().floats,
              outcome.results[1]->front().floats);
    float root = std::sqrt((x * x + 2.25f) / 2);
    numDifferent += roundTo(static_cast<double>(x / root) * gamma,
                            BFloat16Type::get(&context)) !=
                    outcome.results[0]->front().floats[0];
  }
  RecordProperty("different", numDifferent);
}

TEST_F(InterpreterTest, RefusesWhatMeansNothing) {
  RankValues two = make({2}, {{1, 2}, {3, 4}});
  RankValues one = make({1}, {{1}, {2}});
  StringRef add = R"mlir(
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %0 = tandem.add %a, %b : tensor<?xf32>
      return %0 : tensor<?xf32>
    })mlir";
  EXPECT_EQ(run(add, {two, two}).error, "");
  EXPECT_NE(run(add, {two, one}).error, "");

  EXPECT_NE(run(R"mlir(
    func.func @main(%a: tensor<?xf32>) -> tensor<3xf32> {
      %0 = tensor.cast %a : tensor<?xf32> to tensor<3xf32>
      return %0 : tensor<3xf32>
    })mlir",
                two)
                .error,
            "");

  auto condition = std::make_shared<std::vector<Data>>(2);
  (*condition)[0].ints = {0};
  (*condition)[1].ints = {1};
  Outcome outcome = run(R"mlir(
    func.func @main(%c: i1) {
      scf.if %c {
      }
      return
    })mlir",
                        RankValues(condition));
  EXPECT_NE(outcome.error.find("ranks branch apart"), std::string::npos);

  EXPECT_NE(run(R"mlir(
    func.func @main(%a: tensor<2xf32>) {
      "onnx.Mystery"(%a) : (tensor<2xf32>) -> ()
      return
    })mlir",
                two)
                .error,
            "");
}
} // namespace
