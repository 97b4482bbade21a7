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
#include "mlir/IR/Verifier.h"
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

/// Whether an RMSNorm of rows of 8 takes a gamma of this type.
static bool takesGamma(MLIRContext &context, ArrayRef<int64_t> shape,
                       Type element) {
  context.loadDialect<tandem::TandemDialect, func::FuncDialect>();
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto rows = RankedTensorType::get({4, 8}, builder.getF32Type());
  Type types[] = {rows, RankedTensorType::get(shape, element)};
  auto function = func::FuncOp::create(builder, loc, "norm",
                                       builder.getFunctionType(types, {rows}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  OperationState state(loc, tandem::RMSNormOp::getOperationName());
  state.addOperands(body->getArguments());
  state.addTypes(rows);
  state.addRegion();
  state.addAttribute("epsilon", builder.getF64FloatAttr(1e-5));
  func::ReturnOp::create(builder, loc, builder.create(state)->getResults());
  return succeeded(verify(*module));
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

  Builder builder(&context);
  good &= takesGamma(context, {8}, builder.getF32Type());
  good &= fails("gamma has length 4, but the last dimension is 8",
                [&] { return takesGamma(context, {4}, builder.getF32Type()); });
  good &= fails("must be rank-1 tensor of floating-point values",
                [&] { return takesGamma(context, {8}, builder.getI8Type()); });

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
