//===- OnnxImport.cpp - From ONNX to MLIR -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Import/OnnxImport.h"

#include "GraphImporter.h"
#include "ModelFile.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/OnnxOps/PrintableText.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

void mlir::tandem::registerOnnxImportDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, TandemDialect>();
  if (!registry.getDialectAllocator(OnnxDialect::getDialectNamespace()))
    registry.insert<OnnxDialect>();
}

/// A host may have an `onnx` dialect of its own; a second one would abort.
static void loadDialects(MLIRContext *context) {
  context->loadDialect<func::FuncDialect, TandemDialect>();
  if (!context->getOrLoadDialect(OnnxDialect::getDialectNamespace()))
    context->loadDialect<OnnxDialect>();
}

OwningOpRef<ModuleOp>
mlir::tandem::importOnnxBuffer(std::unique_ptr<llvm::MemoryBuffer> buffer,
                               MLIRContext *context,
                               const OnnxImportOptions &options) {
  loadDialects(context);
  std::string fileName = buffer->getBufferIdentifier().str();
  std::string error;
  std::unique_ptr<onnx::ModelFile> file =
      onnx::ModelFile::parse(std::move(buffer), error);
  if (!file) {
    emitError(FileLineColLoc::get(context, fileName, 0, 0)) << error;
    return nullptr;
  }
  return onnx::GraphImporter(*file, fileName, options.externalDataDir, context,
                             options)
      .run();
}

OwningOpRef<ModuleOp>
mlir::tandem::importOnnxFile(StringRef path, MLIRContext *context,
                             const OnnxImportOptions &options) {
  auto refuse = [&](const Twine &why) {
    emitError(FileLineColLoc::get(context, path, 0, 0)) << why;
    return nullptr;
  };
  if (llvm::sys::fs::is_directory(path))
    return refuse("cannot be read: it is a folder");
  // The file is mapped, not read, if it is large; nothing needs a NUL at its
  // end.
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return refuse("cannot be read: " + buffer.getError().message());
  OnnxImportOptions fileOptions = options;
  if (fileOptions.externalDataDir.empty()) {
    fileOptions.externalDataDir = llvm::sys::path::parent_path(path).str();
    if (fileOptions.externalDataDir.empty())
      fileOptions.externalDataDir = ".";
  }
  return importOnnxBuffer(std::move(*buffer), context, fileOptions);
}

bool mlir::tandem::isOnnxFileName(StringRef path) {
  return llvm::sys::path::extension(path) == ".onnx";
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// The place in a file that a location stands for; null if there is none.
static FileLineColLoc findFile(Location location) {
  FileLineColLoc result;
  location->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      result = file;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return result;
}

static void printOne(const Diagnostic &diagnostic, llvm::raw_ostream &os) {
  if (FileLineColLoc place = findFile(diagnostic.getLocation())) {
    os << makePrintable(place.getFilename().getValue()) << ':';
    // Line 0 stands for the model as a whole.
    if (place.getLine() != 0)
      os << place.getLine() << ':' << place.getColumn() << ':';
    os << ' ';
  }
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Note:
    os << "note: ";
    break;
  case DiagnosticSeverity::Warning:
    os << "warning: ";
    break;
  case DiagnosticSeverity::Error:
    os << "error: ";
    break;
  case DiagnosticSeverity::Remark:
    os << "remark: ";
    break;
  }
  os << makePrintable(diagnostic.str()) << '\n';
}

void mlir::tandem::printOnnxDiagnostic(const Diagnostic &diagnostic,
                                       llvm::raw_ostream &os) {
  printOne(diagnostic, os);
  for (const Diagnostic &note : diagnostic.getNotes())
    printOne(note, os);
}
