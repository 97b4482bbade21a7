//===- FuseSweep.cpp - The pipeline on models without all-reduces ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the paths of ONNX models from standard input, one a line, and says of
// each what tandem-fuse-pipeline did to it: "same" if its text, locations
// included, is what was imported, "refused" if it does not import, else
// "changed" or "fails". Many models in one process, since starting one takes
// longer than most of them.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <iostream>
#include <string>

using namespace mlir;
using namespace mlir::tandem;

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, OpPrintingFlags().enableDebugInfo());
  return text;
}

static std::string process(const std::string &path, size_t &numFused) {
  DialectRegistry registry;
  registerOnnxImportDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.disableMultithreading();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  context.getOrLoadDialect<TandemDialect>()->setFusionReportHandler(
      [&](const FusionReport &report) { numFused += report.getNumFused(); });
  OwningOpRef<ModuleOp> module = importOnnxFile(path, &context);
  if (!module)
    return "refused";
  std::string before = print(*module);
  PassManager pm(&context);
  buildFusePipeline(pm, TandemFuseOptions());
  if (failed(pm.run(*module)))
    return "fails";
  return print(*module) == before ? "same" : "changed";
}

int main() {
  std::string path;
  while (std::getline(std::cin, path)) {
    size_t numFused = 0;
    std::string what = process(path, numFused);
    llvm::outs() << what << ' ' << numFused << ' ' << path << '\n';
    llvm::outs().flush();
  }
  return 0;
}
