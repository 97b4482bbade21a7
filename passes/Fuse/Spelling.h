//===- Spelling.h - How the source spelled its collectives ---- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_SPELLING_H
#define TANDEM_PASSES_FUSE_SPELLING_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// One entry for each group and reduction whose all-reduces were raised from
/// ONNX nodes: `{group, reduction, nodes}`, each node a dictionary of `op` (the
/// MLIR op's name) and `attributes`. The nodes form a line. What the module
/// already tells comes first.
ArrayAttr collectAllReduceNodes(ModuleOp module);

/// The name that the source gave `value`, through raised ops; empty if none.
StringRef getSourceName(Value value);

/// The names of the dims of `value`, as `tandem.dim_params` has them.
StringRef getDimNames(Value value);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_SPELLING_H
