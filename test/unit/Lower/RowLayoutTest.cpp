//===- RowLayoutTest.cpp - Which buffers the runtime can take -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/RowLayout.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
constexpr int64_t dyn = ShapedType::kDynamic;

/// -2: not such rows; -1: one behind the other; else the dim.
int getStrideDim(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  MLIRContext context;
  auto type =
      MemRefType::get(shape, Float32Type::get(&context),
                      StridedLayoutAttr::get(&context, /*offset=*/0, strides));
  FailureOr<RowLayout> layout = getRowLayout(type);
  if (failed(layout))
    return -2;
  return layout->strideDim ? static_cast<int>(*layout->strideDim) : -1;
}
} // namespace

TEST(RowLayoutTest, Identity) {
  MLIRContext context;
  Type f32 = Float32Type::get(&context);
  const SmallVector<int64_t> shapes[] = {{}, {8}, {dyn, dyn, 8}, {dyn, dyn}};
  for (ArrayRef<int64_t> shape : shapes) {
    FailureOr<RowLayout> layout = getRowLayout(MemRefType::get(shape, f32));
    ASSERT_TRUE(succeeded(layout));
    EXPECT_FALSE(layout->strideDim);
  }
}

TEST(RowLayoutTest, OneStride) {
  EXPECT_EQ(getStrideDim({4, 8}, {32, 1}), 0);
  EXPECT_EQ(getStrideDim({dyn, 8}, {dyn, 1}), 0);
  EXPECT_EQ(getStrideDim({8}, {1}), -1);
  EXPECT_EQ(getStrideDim({3, 4, 8}, {128, 32, 1}), 1);
  EXPECT_EQ(getStrideDim({dyn, 4, 8}, {128, 32, 1}), 1);
}

TEST(RowLayoutTest, DimsOfOneDoNotCount) {
  EXPECT_EQ(getStrideDim({1, 4, 8}, {7, 32, 1}), 1);
  EXPECT_EQ(getStrideDim({3, 1, 8}, {64, 7, 1}), 0);
  EXPECT_EQ(getStrideDim({4, 1}, {3, 7}), 0);
  EXPECT_EQ(getStrideDim({1, 1, 8}, {7, 7, 1}), -1);
}

TEST(RowLayoutTest, NotRows) {
  // Elements apart.
  EXPECT_EQ(getStrideDim({4, 8}, {16, 2}), -2);
  EXPECT_EQ(getStrideDim({8}, {dyn}), -2);
  // Two strides.
  EXPECT_EQ(getStrideDim({3, 2, 8}, {128, 32, 1}), -2);
  // What is not known may be two strides.
  EXPECT_EQ(getStrideDim({3, dyn, 8}, {128, 32, 1}), -2);
  EXPECT_EQ(getStrideDim({3, 4, 8}, {dyn, 32, 1}), -2);
  EXPECT_EQ(getStrideDim({3, 4, 8}, {128, dyn, 1}), -2);
  // The runtime takes 0 for the row's length.
  EXPECT_EQ(getStrideDim({4, 8}, {0, 1}), -2);
}
