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

#include <cstddef>
#include <optional>

namespace mlir {
class DialectRegistry;
class MlirOptMainConfig;

namespace tandem {

/// What became of a model's all-reduces.
struct FusionCount {
  size_t fused = 0;
  size_t missed = 0;
};

/// Does for the ONNX model in the file `path` what MlirOptMain does for MLIR
/// text: imports it, runs the passes that `config` names (by default
/// tandem-fuse-pipeline), and prints the module to `os`. Prints all errors.
/// Returns the count if tandem-fuse ran.
FailureOr<std::optional<FusionCount>>
runOnModel(StringRef path, raw_ostream &os, DialectRegistry &registry,
           const MlirOptMainConfig &config);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_TOOLS_FUSIONOPT_MODELDRIVER_H
