//===- OnnxImport.h - From ONNX to MLIR -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_IMPORT_ONNXIMPORT_H
#define TANDEM_IMPORT_ONNXIMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>

namespace llvm {
class MemoryBuffer;
class raw_ostream;
} // namespace llvm

namespace mlir {
class Diagnostic;
class DialectRegistry;
class MLIRContext;
} // namespace mlir

namespace mlir::tandem {

/// What the importer may be told.
struct OnnxImportOptions {
  /// Folder that the locations of external data are relative to. Empty: the
  /// folder of the model's file.
  std::string externalDataDir;
  /// Read external data also through symbolic links that lead out of that
  /// folder, as Hugging Face's cache has them. For models that are trusted.
  bool followsLinks = false;
  /// Constants with at most this many elements are written out; larger ones
  /// that are no splat become resources over the mapped file.
  int64_t maxDenseElements = 64;
  /// After this many errors the importer stops reporting more.
  unsigned maxErrors = 20;
};

/// Registers the dialects that imported modules use: builtin, func, tandem and,
/// unless the registry has an `onnx` dialect, the thin one.
void registerOnnxImportDialects(DialectRegistry &registry);

/// Imports the model in the file `path` into `context`, as `docs/import.md`
/// describes. Loads the dialects it needs. Errors go to the context's
/// diagnostic handlers, located at file and node; all that can be found in one
/// run are reported, and null is returned then.
///
/// The file stays mapped as long as the context lives, because large constants
/// refer to it, so it must not be changed in that time. External data files
/// need not be there, except where a shape depends on their values; of those
/// that are, constants of a few elements are read.
OwningOpRef<ModuleOp> importOnnxFile(StringRef path, MLIRContext *context,
                                     const OnnxImportOptions &options = {});

/// The same for a model in memory. `buffer` is kept as long as the context
/// lives; its identifier is the file name in locations. External data needs
/// `options.externalDataDir`.
OwningOpRef<ModuleOp>
importOnnxBuffer(std::unique_ptr<llvm::MemoryBuffer> buffer,
                 MLIRContext *context, const OnnxImportOptions &options = {});

/// True for file names that the tools take for ONNX models.
bool isOnnxFileName(StringRef path);

/// Prints a diagnostic as `model.onnx:3:1: error: text`, one line each for it
/// and its notes. The default handler of MLIR's tools would quote the source
/// line, which in an ONNX file is binary data.
void printOnnxDiagnostic(const Diagnostic &diagnostic, llvm::raw_ostream &os);

} // namespace mlir::tandem

#endif // TANDEM_IMPORT_ONNXIMPORT_H
