//===- consumer.cpp - A program that uses installed Tandem ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// Whether `body` fails and says why, in words that hold `text`.
static bool failsWith(MLIRContext &context, StringRef text,
                      llvm::function_ref<bool()> body) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str() + '\n';
    return success();
  });
  bool failed = !body();
  if (failed && StringRef(said).contains(text))
    return true;
  llvm::outs() << (failed ? "failed" : "passed") << ", saying: " << said;
  return false;
}

/// Uses the libraries badly. All of it must fail in words, and end nothing.
static bool misuse(const char *program, const char *path) {
  MLIRContext context;
  auto fails = [&](StringRef text, llvm::function_ref<bool()> body) {
    return failsWith(context, text, body);
  };
  auto import = [&](StringRef file) {
    return bool(tandem::importOnnxFile(file, &context));
  };
  bool good = fails("cannot be read", [&] { return import("no-such.onnx"); });
  good &= fails("not an ONNX model", [&] { return import(program); });

  OwningOpRef<ModuleOp> module = tandem::importOnnxFile(path, &context);
  auto run = [&](const tandem::TandemFuseOptions &options) {
    PassManager pm(&context);
    tandem::buildFusePipeline(pm, options);
    OwningOpRef<ModuleOp> copy = module->clone();
    return succeeded(pm.run(*copy));
  };
  tandem::TandemFuseOptions options;
  options.maxTokens = 0;
  good &= fails("max-tokens", [&] { return run(options); });
  options.maxTokens = -1;
  options.worldSize = -3;
  good &= fails("world-size", [&] { return run(options); });
  options.worldSize = 0;
  options.limits = "no-such.json";
  good &= fails("no-such.json", [&] { return run(options); });
  options.limits.clear();
  options.reportFile = "/no-such-folder/report.json";
  good &= fails("/no-such-folder/report.json", [&] { return run(options); });

  // Passes on an op that they are not for.
  good &= fails("func.func", [&] {
    PassManager pm(&context);
    tandem::buildFusePipeline(pm, {});
    return succeeded(pm.run(*module->getOps<func::FuncOp>().begin()));
  });
  return good;
}

/// Fuses the model given as the argument and prints the counts.
int main(int argc, char **argv) {
  if (argc == 3 && StringRef(argv[2]) == "--misuse")
    return misuse(argv[0], argv[1]) ? 0 : 1;
  if (argc != 2)
    return 2;
  MLIRContext context;
  OwningOpRef<ModuleOp> module = tandem::importOnnxFile(argv[1], &context);
  if (!module)
    return 1;
  context.getOrLoadDialect<tandem::TandemDialect>()->setFusionReportHandler(
      [](const tandem::FusionReport &report) {
        llvm::outs() << "fused " << report.getNumFused() << " of "
                     << report.sites.size() << '\n';
      });
  PassManager pm(&context);
  tandem::buildFusePipeline(pm, {});
  return failed(pm.run(*module));
}
