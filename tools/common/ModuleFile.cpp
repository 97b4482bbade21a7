//===- ModuleFile.cpp - Files of MLIR text or bytecode --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleFile.h"

#include "mlir/Support/FileUtilities.h"
#include "tandem/Registration/ModuleAlignment.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

std::unique_ptr<llvm::MemoryBuffer>
mlir::tandem::openModuleFile(StringRef path, std::string &error) {
  return alignModule(openInputFile(path, moduleAlignment, &error));
}

LogicalResult mlir::tandem::openModuleFile(StringRef path,
                                           llvm::SourceMgr &sources,
                                           std::string &error) {
  std::unique_ptr<llvm::MemoryBuffer> contents = openModuleFile(path, error);
  if (!contents)
    return failure();
  sources.AddNewSourceBuffer(std::move(contents), llvm::SMLoc());
  return success();
}

void mlir::tandem::warnOfOutputFormat(StringRef tool, StringRef path,
                                      bool emitsBytecode, StringRef others) {
  StringRef extension = llvm::sys::path::extension(path);
  if (emitsBytecode || extension.empty() || path.starts_with("/dev/") ||
      llvm::is_contained({".mlir", ".mlirbc", ".onnx", ".txt"}, extension))
    return;
  llvm::errs() << tool << ": warning: '" << path
               << "' gets MLIR text; names that end in .mlirbc get bytecode, "
               << others << '\n';
}
