//===- ModelDriver.h - Run passes on an ONNX model --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H
#define TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H

#include "../common/Summary.h"

#include "tandem/Export/OnnxExport.h"

#include "mlir/Support/LLVM.h"

#include <optional>

namespace mlir {
class DialectRegistry;
class MlirOptMainConfig;

namespace tandem {
struct OnnxImportOptions;

/// Does for ONNX models what MlirOptMain does for MLIR text: reads the file
/// `path` (`isModel`: an ONNX model; else MLIR), runs the passes that `config`
/// names (on a model by default tandem-fuse-pipeline), and writes the module to
/// `os`, as an ONNX model if `onnx` is given. Prints all errors. Returns the
/// count if tandem-fuse ran.
FailureOr<std::optional<FusionCount>>
runOnModel(StringRef path, bool isModel, const OnnxImportOptions &options,
           raw_ostream &os, const std::optional<OnnxExportOptions> &onnx,
           DialectRegistry &registry, const MlirOptMainConfig &config);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H
