//===- OnnxExport.h - From MLIR to ONNX -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXPORT_ONNXEXPORT_H
#define TANDEM_EXPORT_ONNXEXPORT_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::tandem {

/// What becomes of weights in external files when a model is written to another
/// folder than theirs.
enum class ExternalWeights {
  /// The files stay where they are. References are rewritten if the files are
  /// below the output's folder; if not, they stay as they are, with a warning.
  Keep,
  /// A hard link of each file is made beside the output.
  Link,
  /// Each file is copied.
  Copy
};

/// How a check at run time is written.
enum class ExportedGuard {
  /// An `If` node: one branch holds the fused op, the other the source's ops.
  If,
  /// The fused op alone, which checks by itself (attribute `max_tokens`).
  Op
};

/// What the exporter may be told.
struct OnnxExportOptions {
  /// The file that is written, for finding weights; "" where there is none.
  std::string outputPath;
  /// Folder that locations of external data are relative to now. Empty: that
  /// of the model file that the module's location names, or else that of the
  /// output.
  std::string externalDataDir;
  ExternalWeights weights = ExternalWeights::Keep;
  ExportedGuard guard = ExportedGuard::If;
};

/// Writes `module` as an ONNX model to `os`, as `docs/export.md` describes.
/// Large inline weights go from where they are to `os` without a copy. Errors
/// go to the context's diagnostic handlers: one lists all ops that have no ONNX
/// form. After an error what `os` got is worth nothing. Weights in external
/// files are linked or copied before anything is written.
LogicalResult exportOnnx(ModuleOp module, llvm::raw_ostream &os,
                         const OnnxExportOptions &options = {});

} // namespace mlir::tandem

#endif // TANDEM_EXPORT_ONNXEXPORT_H
