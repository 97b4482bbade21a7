//===- RuntimeArgsTest.cpp - LLVM types against the C header --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/TandemToLLVM.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/TypeToLLVM.h"
#include "tandem/Runtime/tandem.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/LLVMContext.h"
#include "gtest/gtest.h"

#include <cstddef>

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// The offsets that LLVM gives the fields of an MLIR struct type.
struct Layout {
  explicit Layout(LLVM::LLVMStructType type) {
    llvm::LLVMContext context;
    // What 64-bit little-endian System V targets say.
    llvm::DataLayout dataLayout("e-m:e-i64:64-f80:128-n8:16:32:64-S128");
    auto *translated = cast<llvm::StructType>(
        LLVM::TypeToLLVMIRTranslator(context).translateType(type));
    const llvm::StructLayout *layout = dataLayout.getStructLayout(translated);
    size = layout->getSizeInBytes();
    for (unsigned i = 0; i < translated->getNumElements(); ++i) {
      offsets.push_back(layout->getElementOffset(i));
      // Structs in it, field by field.
      if (auto *inner =
              dyn_cast<llvm::StructType>(translated->getElementType(i)))
        for (unsigned j = 0; j < inner->getNumElements(); ++j)
          inners.push_back(
              layout->getElementOffset(i) +
              dataLayout.getStructLayout(inner)->getElementOffset(j));
    }
  }
  uint64_t size;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> inners;
};

class RuntimeArgsTest : public testing::Test {
protected:
  RuntimeArgsTest() { context.loadDialect<LLVM::LLVMDialect>(); }
  MLIRContext context;
};
} // namespace

#define OFFSET(field) offsetof(Args, field)

TEST_F(RuntimeArgsTest, NormArgs) {
  using Args = tandem_norm_args;
  Layout layout(getNormArgsType(&context));
  EXPECT_EQ(layout.size, sizeof(Args));
  EXPECT_EQ(
      layout.offsets,
      (std::vector<uint64_t>{
          OFFSET(struct_size), OFFSET(tokens), OFFSET(hidden), OFFSET(dtype),
          OFFSET(flags), OFFSET(stream), OFFSET(input), OFFSET(residual),
          OFFSET(bias), OFFSET(pre_norm), OFFSET(norm), OFFSET(norm_out),
          OFFSET(residual_out), OFFSET(sum_out), OFFSET(reserved)}));
  EXPECT_EQ(
      layout.inners,
      (std::vector<uint64_t>{
          OFFSET(input.data), OFFSET(input.row_stride), OFFSET(residual.data),
          OFFSET(residual.row_stride), OFFSET(pre_norm.gamma),
          OFFSET(pre_norm.gamma_dtype), OFFSET(pre_norm.rounding),
          OFFSET(pre_norm.epsilon), OFFSET(norm.gamma),
          OFFSET(norm.gamma_dtype), OFFSET(norm.rounding), OFFSET(norm.epsilon),
          OFFSET(norm_out.data), OFFSET(norm_out.row_stride),
          OFFSET(residual_out.data), OFFSET(residual_out.row_stride),
          OFFSET(sum_out.data), OFFSET(sum_out.row_stride)}));
}

TEST_F(RuntimeArgsTest, AllReduceArgs) {
  using Args = tandem_all_reduce_args;
  Layout layout(getAllReduceArgsType(&context));
  EXPECT_EQ(layout.size, sizeof(Args));
  EXPECT_EQ(layout.offsets,
            (std::vector<uint64_t>{OFFSET(struct_size), OFFSET(tokens),
                                   OFFSET(hidden), OFFSET(dtype), OFFSET(flags),
                                   OFFSET(stream), OFFSET(input),
                                   OFFSET(output), OFFSET(reduction),
                                   OFFSET(reserved0), OFFSET(reserved)}));
  EXPECT_EQ(
      layout.inners,
      (std::vector<uint64_t>{OFFSET(input.data), OFFSET(input.row_stride),
                             OFFSET(output.data), OFFSET(output.row_stride)}));
}
