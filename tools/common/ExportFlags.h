//===- ExportFlags.h - Flags of the tools that write ONNX -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_EXPORTFLAGS_H
#define TANDEM_TOOLS_COMMON_EXPORTFLAGS_H

#include "tandem/Export/OnnxExport.h"

namespace mlir::tandem {

/// Adds --weights, --onnx-guard and --external-data-dir. Before the command
/// line is parsed.
void registerExportFlags();

/// The first of them that is given and means nothing without ONNX output; empty
/// if there is none.
llvm::StringRef getGivenExportFlag();

/// What they say.
OnnxExportOptions getExportFlags(StringRef outputPath);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_EXPORTFLAGS_H
