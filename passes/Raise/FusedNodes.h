//===- FusedNodes.h - Raising nodes of the domain ai.tandem --- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RAISE_FUSEDNODES_H
#define TANDEM_PASSES_RAISE_FUSEDNODES_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// Replaces the nodes in which Tandem's exporter writes fused ops by fused ops,
/// where types are known and the fused op can be exported again. Returns
/// whether anything changed.
bool raiseFusedNodes(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RAISE_FUSEDNODES_H
