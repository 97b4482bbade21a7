//===- CallBody.h - The ops that a call was inlined to -------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The importer inlines calls of model-local functions and marks each op that
// comes from one with `tandem.call`, the number of the innermost call in the
// list `calls` of the module's `tandem.onnx`. The exporter writes the call
// again where its ops are still what the importer made of them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ONNXOPS_CALLBODY_H
#define TANDEM_ONNXOPS_CALLBODY_H

#include "mlir/IR/Operation.h"

namespace mlir::tandem {

/// Discardable attribute of an op: the call that it was inlined from.
inline constexpr StringLiteral callAttrName = "tandem.call";

/// What can be told of the ops of one call. Ops are taken in an order that
/// depends on what uses what, and not on where an op that only computes stands:
/// those of other domains, those with bodies, and those that no other one of
/// the list uses keep their order, as they may communicate; each of the rest
/// comes where it is used first.
struct CallBody {
  /// What they read from outside, in the order of the first use. Values of
  /// `onnx.NoValue` are not among them.
  SmallVector<Value, 8> externals;
  /// The results of the ops of the list itself, in order.
  SmallVector<Value, 8> results;
  /// Tells bodies apart: equal for two lists of ops that do the same with
  /// their externals, under the same names. The same on all machines.
  uint64_t hash = 0;
};

/// Describes `ops`, which are of one block and in their order there.
CallBody describeCallBody(ArrayRef<Operation *> ops);

} // namespace mlir::tandem

#endif // TANDEM_ONNXOPS_CALLBODY_H
