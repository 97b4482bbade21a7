//===- LaunchBuilder.h - From the dialect's ops to launches ---- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_LAUNCHBUILDER_H
#define TANDEM_DIALECT_LAUNCHBUILDER_H

#include "tandem/Dialect/Tandem.h"

namespace mlir::tandem {

/// The operands and attributes of a `tandem.launch` that is about to be made.
/// Start from the op that it replaces, change what is to be different, create.
struct LaunchBuilder {
  explicit LaunchBuilder(LaunchOp op);
  explicit LaunchBuilder(FusedAllReduceNormOp op);
  /// Without destinations; the handles of the function that `op` is in.
  explicit LaunchBuilder(AllReduceOp op);
  explicit LaunchBuilder(RMSNormOp op);

  /// All operands that are data but the destinations; some may be null.
  SmallVector<Value *, 5> getInputs() {
    return {&input, &residual, &bias, &preGamma, &gamma};
  }

  /// On tensors it has a result for each destination, on buffers the status.
  LaunchOp create(OpBuilder &builder, Location loc) const;

  RuntimeCall call;
  Value input, residual, bias, preGamma, gamma, workspace, stream;
  SmallVector<Value> inits;
  ReductionKind reduction = ReductionKind::Sum;
  FloatAttr epsilon, preEpsilon;
  NormRounding rounding = NormRounding::BeforeGamma;
  NormRounding preRounding = NormRounding::BeforeGamma;
  bool returnsResidual = false;
  bool returnsSum = false;
  bool fallback = false;
  bool batchInvariant = false;
};

/// The first argument of type T (WorkspaceType, StreamType) of the function
/// around `op`; null where there is none.
template <typename T>
Value findHandle(Operation *op);

/// Writes what `tandem.add` means as a linalg op: a sum of `inputs` rounded
/// once, into `init`. `results` is empty on buffers.
Operation *createAdd(OpBuilder &builder, Location loc, TypeRange results,
                     ValueRange inputs, Value init);

} // namespace mlir::tandem

#endif // TANDEM_DIALECT_LAUNCHBUILDER_H
