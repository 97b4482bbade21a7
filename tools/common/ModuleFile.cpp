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
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

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
