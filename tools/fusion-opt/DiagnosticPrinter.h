//===- DiagnosticPrinter.h - Diagnostics about a model file -----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_DIAGNOSTICPRINTER_H
#define TANDEM_TOOLS_FUSIONOPT_DIAGNOSTICPRINTER_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace mlir::tandem {

/// Prints diagnostics about a model to standard error, one line each:
///
///     model.onnx:18:1: error: node '/layers.0/Add': message
///
/// where 18 is the node's position in its graph, counted from one. MLIR's own
/// handler would open the (binary) model and quote a line of it. Honours the
/// verbosity and notes flags of `config`.
class DiagnosticPrinter : public ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(MLIRContext *context, const MlirOptMainConfig &config);
};

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_FUSIONOPT_DIAGNOSTICPRINTER_H
