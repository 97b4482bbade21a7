//===- ModelDriver.h - Run passes on an ONNX model --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H
#define TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H

#include "mlir/Support/LLVM.h"

namespace mlir {
class DialectRegistry;
class MlirOptMainConfig;

namespace tandem {

/// Does for the ONNX model in the file `path` what MlirOptMain does for MLIR
/// text: imports it, runs the passes that `config` names (by default
/// tandem-fuse-pipeline), and prints the module to `os`. Prints all errors, and
/// at the end how many all-reduces were fused, if tandem-fuse ran.
LogicalResult runOnModel(StringRef path, raw_ostream &os,
                         DialectRegistry &registry,
                         const MlirOptMainConfig &config);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H
