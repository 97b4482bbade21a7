//===- Passes.td - Conversions from other dialects ------- -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes of the tools that compile and run; no part of the plugin.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PASSES_TD
#define TANDEM_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def TandemOnnxToLinalg : Pass<"tandem-onnx-to-linalg", "::mlir::ModuleOp"> {
  let summary = "lower the ONNX ops of a block to linalg and tensor ops";
  let description = [{
    Lowers `onnx.*` ops to `linalg`, `tensor`, `arith` and `math`, with ONNX's
    broadcasting also where sizes are only known at run time. Collectives and
    norms are raised to tandem ops where that has not been done. docs/run.md
    lists the ops. One error names all ops that are not among them.

    Sizes that can't be proven to fit are checked at run time, by `cf.assert`.
    Types below f32 are computed in f32 and rounded once for each op. Weights
    in external files are read; `external-data-dir` is where they are, if not
    in the folder of the model that the ops' locations name.
  }];
  let options = [
    Option<"externalDataDir", "external-data-dir", "std::string", "\"\"",
           "Folder of external data files; default: the model's own">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tandem::TandemDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // TANDEM_CONVERSION_PASSES_TD
