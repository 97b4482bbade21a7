//===- StrictRounding.cpp - Keep each rounding ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMSTRICTROUNDING
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;

namespace {
struct StrictRoundingPass
    : public tandem::impl::TandemStrictRoundingBase<StrictRoundingPass> {
  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      if (auto extend = dyn_cast<arith::ExtFOp>(op))
        extend.removeFastmathAttr();
      else if (auto truncate = dyn_cast<arith::TruncFOp>(op))
        truncate.removeFastmathAttr();
    });
  }
};
} // namespace
