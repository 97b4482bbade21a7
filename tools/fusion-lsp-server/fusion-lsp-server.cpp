//===- fusion-lsp-server.cpp - The language server ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-lsp-server with Tandem's dialect, for editors.
//
//===----------------------------------------------------------------------===//

#include "../common/Version.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tandem/Registration/Registration.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(mlir::tandem::printVersion);
  mlir::DialectRegistry registry;
  mlir::tandem::registerToolDialects(registry);
  return failed(mlir::MlirLspServerMain(argc, argv, registry));
}
