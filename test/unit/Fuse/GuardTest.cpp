//===- GuardTest.cpp - Arithmetic of token counts -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Guard.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

constexpr int64_t kDynamic = ShapedType::kDynamic;

TEST(StaticTokenCount, IsTheProductOfAllButTheLast) {
  EXPECT_EQ(getStaticTokenCount({8}), 1);
  EXPECT_EQ(getStaticTokenCount({3, 8}), 3);
  EXPECT_EQ(getStaticTokenCount({2, 3, 8}), 6);
  EXPECT_EQ(getStaticTokenCount({2, 3, kDynamic}), 6);
  EXPECT_EQ(getStaticTokenCount({}), std::nullopt);
  EXPECT_EQ(getStaticTokenCount({2, kDynamic, 8}), std::nullopt);
}

TEST(StaticTokenCount, DoesNotOverflow) {
  EXPECT_EQ(getStaticTokenCount({INT64_MAX, 8}), INT64_MAX);
  EXPECT_EQ(getStaticTokenCount({INT64_MAX, 2, 8}), std::nullopt);
  EXPECT_EQ(getStaticTokenCount({INT64_C(1) << 32, INT64_C(1) << 32, 8}),
            std::nullopt);
  EXPECT_EQ(getStaticTokenCount({0, INT64_MAX, INT64_MAX, 8}), 0);
  EXPECT_EQ(getStaticTokenCount({INT64_MAX, 0, 8}), 0);
}

class Guard : public ::testing::Test {
protected:
  Guard() : builder(&context) {
    context
        .loadDialect<arith::ArithDialect, func::FuncDialect, TandemDialect>();
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(
        builder, loc(), "f",
        builder.getFunctionType(SmallVector<Type>(3, builder.getIndexType()),
                                {}));
    entry = function.addEntryBlock();
    builder.setInsertionPointToEnd(entry);
    func::ReturnOp::create(builder, loc());
    builder.setInsertionPoint(entry->getTerminator());
  }

  Location loc() { return builder.getUnknownLoc(); }
  Value argument(unsigned i) { return entry->getArgument(i); }
  OpFoldResult size(int64_t value) { return builder.getIndexAttr(value); }

  template <typename OpT>
  unsigned count() {
    unsigned number = 0;
    module->walk([&](OpT) { ++number; });
    return number;
  }

  LimitKey key(int64_t hidden, std::optional<int64_t> given = std::nullopt) {
    return {GroupAttr::getWorld(&context), hidden, builder.getF32Type(), given};
  }
  Value check(const LimitKey &key, StringRef tokensKey, unsigned dim = 0) {
    return guards.getTokensInRange(
        builder, loc(), key, tokensKey, [&](OpBuilder &at) {
          return GuardBuilder::multiplyDims(at, loc(), {argument(dim)});
        });
  }

  MLIRContext context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  Block *entry = nullptr;
  GuardBuilder guards;
};

TEST_F(Guard, StaticDimsAreOneConstant) {
  Value product =
      GuardBuilder::multiplyDims(builder, loc(), {size(4), size(6)});
  APInt value;
  ASSERT_TRUE(matchPattern(product, m_ConstantInt(&value)));
  EXPECT_EQ(value.getSExtValue(), 24);
  EXPECT_TRUE(product.getType().isInteger(64));
  EXPECT_EQ(count<arith::MulIOp>(), 0u);
}

TEST_F(Guard, StaticDimsDoNotOverflow) {
  auto product = [&](ArrayRef<OpFoldResult> dims) {
    APInt value;
    EXPECT_TRUE(matchPattern(GuardBuilder::multiplyDims(builder, loc(), dims),
                             m_ConstantInt(&value)));
    return value.getSExtValue();
  };
  int64_t large = INT64_C(1) << 32;
  EXPECT_EQ(product({size(large), size(large)}), INT64_MAX);
  EXPECT_EQ(product({size(large), size(large), size(3)}), INT64_MAX);
  EXPECT_EQ(product({size(large), size(large), size(0)}), 0);
}

TEST_F(Guard, NoDimsAreOneToken) {
  APInt value;
  ASSERT_TRUE(matchPattern(GuardBuilder::multiplyDims(builder, loc(), {}),
                           m_ConstantInt(&value)));
  EXPECT_EQ(value.getSExtValue(), 1);
}

TEST_F(Guard, DynamicDimsAreMultipliedInI64) {
  Value product = GuardBuilder::multiplyDims(
      builder, loc(), {argument(0), size(3), argument(1), size(1)});
  EXPECT_TRUE(product.getType().isInteger(64));
  // Two dims, and the constant 3.
  EXPECT_EQ(count<arith::IndexCastOp>(), 2u);
  EXPECT_EQ(count<arith::MulIOp>(), 2u);
}

TEST_F(Guard, AFactorOfOneIsLeftOut) {
  Value product =
      GuardBuilder::multiplyDims(builder, loc(), {argument(0), size(1)});
  EXPECT_TRUE(product.getDefiningOp<arith::IndexCastOp>());
}

TEST_F(Guard, EqualCountsAreComparedOnce) {
  Value first = check(key(8), "n");
  EXPECT_EQ(check(key(8), "n"), first);
  EXPECT_EQ(count<arith::CmpIOp>(), 2u);
  // Another count, hidden size or limit is another comparison.
  EXPECT_NE(check(key(8), "m", 1), first);
  EXPECT_NE(check(key(16), "n"), first);
  EXPECT_NE(check(key(8, 4), "n"), first);
  EXPECT_EQ(count<arith::CmpIOp>(), 8u);
}

TEST_F(Guard, LimitsAreAskedOnceAFunction) {
  check(key(8), "n");
  check(key(8), "m", 1);
  check(key(8, 4), "n");
  EXPECT_EQ(count<TokenLimitOp>(), 1u);
  EXPECT_EQ(count<arith::MinSIOp>(), 1u);
  check(key(16), "n");
  EXPECT_EQ(count<TokenLimitOp>(), 2u);
  // They stand first, so that every chain sees them.
  EXPECT_TRUE(isa<TokenLimitOp>(entry->front()));
}

TEST_F(Guard, WhatStandsLaterIsNotUsedEarlier) {
  Value late = check(key(8), "n");
  builder.setInsertionPointToStart(entry);
  Value early = check(key(8), "n");
  EXPECT_NE(early, late);
  EXPECT_TRUE(early.getDefiningOp()->isBeforeInBlock(late.getDefiningOp()));
}

} // namespace
