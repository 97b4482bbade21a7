//===- CompileModel.h - fusion-translate --compile ------------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONTRANSLATE_COMPILEMODEL_H
#define TANDEM_TOOLS_FUSIONTRANSLATE_COMPILEMODEL_H

#include "tandem/Compile/Compile.h"

namespace mlir::tandem {

/// Reads `input` (.onnx, .mlir or .mlirbc), fuses it if it is an ONNX model,
/// and compiles it to `output`. `fuseOptions` are those of tandem-fuse, as in a
/// pipeline. Prints all errors; returns the exit status.
int compileModel(StringRef input, StringRef output, StringRef fuseOptions,
                 const CompileOptions &options);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_FUSIONTRANSLATE_COMPILEMODEL_H
