//===- FusedOps.h - What a fused op tells of itself ----------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_FUSEDOPS_H
#define TANDEM_PASSES_FUSE_FUSEDOPS_H

#include "tandem/Dialect/Tandem.h"

namespace mlir::tandem {

/// Discardable attribute of a fused op: its guard, as reports print it.
inline constexpr StringRef guardAttrName = "tandem.guard";

/// Discardable attribute of a function that is the unfused version of another;
/// the pass leaves it alone.
inline constexpr StringRef fallbackAttrName = "tandem.fallback";

/// The pattern's name, as in "all_reduce_add_rms_norm".
inline StringRef getPatternName(bool hasPreGamma, bool hasResidual) {
  if (hasPreGamma)
    return "all_reduce_rms_norm_add_rms_norm";
  return hasResidual ? "all_reduce_add_rms_norm" : "all_reduce_rms_norm";
}
inline StringRef getPatternName(FusedAllReduceNormOp op) {
  return getPatternName(op.getPreGamma() != nullptr,
                        op.getResidual() != nullptr);
}

/// The guard that the pass put before `op`, "none" where there is none.
inline StringRef getGuardText(FusedAllReduceNormOp op) {
  auto guard = op->getAttrOfType<StringAttr>(guardAttrName);
  return guard ? guard.getValue() : "none";
}

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_FUSEDOPS_H
