//===- StrictRounding.cpp - Keep each rounding ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMSTRICTROUNDING
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;

/// Rounds f64 to bf16 once, by way of f32: what that can't hold leaves an odd
/// last bit, so that nothing that comes out lies in the middle by accident.
static void roundThroughF32(arith::TruncFOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type i32 = b.getI32Type();
  Value in = op.getIn();
  Value nearest = arith::TruncFOp::create(b, loc, b.getF32Type(), in);
  Value back = arith::ExtFOp::create(b, loc, in.getType(), nearest);
  Value bits = arith::BitcastOp::create(b, loc, i32, nearest);
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  // Towards zero first. NaN is neither further away nor another.
  Value isAway = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT,
                                       math::AbsFOp::create(b, loc, back),
                                       math::AbsFOp::create(b, loc, in));
  Value less = arith::SubIOp::create(b, loc, bits, one);
  bits = arith::SelectOp::create(b, loc, isAway, less, bits);
  Value isOther =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ONE, back, in);
  Value odd = arith::OrIOp::create(b, loc, bits, one);
  bits = arith::SelectOp::create(b, loc, isOther, odd, bits);
  op.getInMutable().assign(
      arith::BitcastOp::create(b, loc, b.getF32Type(), bits));
}

namespace {
struct StrictRoundingPass
    : public tandem::impl::TandemStrictRoundingBase<StrictRoundingPass> {
  void runOnOperation() override {
    SmallVector<arith::TruncFOp> twice;
    getOperation()->walk([&](Operation *op) {
      if (auto extend = dyn_cast<arith::ExtFOp>(op))
        extend.removeFastmathAttr();
      else if (auto truncate = dyn_cast<arith::TruncFOp>(op))
        truncate.removeFastmathAttr();
      if (auto truncate = dyn_cast<arith::TruncFOp>(op);
          truncate && truncate.getIn().getType().isF64() &&
          truncate.getType().isBF16())
        twice.push_back(truncate);
    });
    for (arith::TruncFOp op : twice)
      roundThroughF32(op);
  }
};
} // namespace
