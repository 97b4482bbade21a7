//===- Graph.h - A module as a graph, for drawing ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_GRAPH_H
#define TANDEM_LIB_CAPI_GRAPH_H

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace mlir::tandem::capi {

/// Writes the ops of `module`'s functions as JSON:
/// {"ops": [{"id", "function", "op", "location", "types", "inputs"}]}, in the
/// order of execution; `inputs` are ids of ops, or negative for block
/// arguments. An ONNX node of another domain has its domain in `op`.
void writeGraph(ModuleOp module, llvm::raw_ostream &os);

} // namespace mlir::tandem::capi

#endif // TANDEM_LIB_CAPI_GRAPH_H
