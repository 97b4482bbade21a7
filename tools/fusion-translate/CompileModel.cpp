//===- CompileModel.cpp - fusion-translate --compile ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileModel.h"

#include "../common/ModuleFile.h"
#include "../common/Summary.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"
#include "tandem/Registration/Registration.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::tandem;

static int fail(const Twine &message) {
  llvm::errs() << "fusion-translate: error: " << message << '\n';
  return 1;
}

/// Raises and fuses, and says what came of it. What did not fuse need not go
/// back to source ops.
static LogicalResult fuse(ModuleOp module, StringRef options) {
  std::unique_ptr<Pass> pass = createTandemFuse();
  auto report = [](const Twine &message) {
    llvm::errs() << "fusion-translate: error: " << message << '\n';
    return failure();
  };
  if (failed(pass->initializeOptions(options, report)))
    return failure();
  FusionCount count;
  module.getContext()
      ->getOrLoadDialect<TandemDialect>()
      ->setFusionReportHandler(
          [&](const FusionReport &result) { count.add(result); });
  PassManager pm(module.getContext());
  pm.addPass(createTandemRaise());
  pm.addPass(std::move(pass));
  LogicalResult result = pm.run(module);
  module.getContext()
      ->getOrLoadDialect<TandemDialect>()
      ->setFusionReportHandler({});
  // A block without all-reduces is compiled like any other.
  if (succeeded(result) && count.fused + count.missed)
    printSummary("fusion-translate", count,
                 "run fusion-opt on it with --remarks-filter=tandem-fuse, or "
                 "add report=FILE to --fuse-options");
  return result;
}

/// Whether a file of this name would be taken for something else.
static bool isOfOtherFormat(StringRef extension) {
  static constexpr StringLiteral others[] = {
      ".onnx", ".mlir", ".mlirbc", ".npz", ".npy",  ".h",
      ".hpp",  ".c",    ".cpp",    ".ll",  ".bc",   ".s",
      ".o",    ".a",    ".json",   ".pb",  ".data", ".safetensors"};
  return llvm::any_of(others, [&](StringRef other) {
    return extension.equals_insensitive(other);
  });
}

int mlir::tandem::compileModel(StringRef input, StringRef output,
                               StringRef fuseOptions,
                               const CompileOptions &options) {
  if (output == "-")
    return fail("--compile writes a shared object; name it with -o model.so");
  StringRef extension = llvm::sys::path::extension(output);
  if (isOfOtherFormat(extension))
    return fail("--compile writes a shared object, and '" + extension +
                "' is of another kind of file; name it with -o model.so");
  if (input == "-")
    return fail("--compile reads a file; name it");
  bool isSame = false;
  if (!llvm::sys::fs::equivalent(input, output, isSame) && isSame)
    return fail("'" + input + "' would be overwritten while it is read");

  DialectRegistry registry;
  registerToolDialects(registry);
  registerCompileDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // What an op was lowered to says nothing to who wrote the source.
  context.printOpOnDiagnostic(false);
  if (isOnnxFileName(input)) {
    ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
      printOnnxDiagnostic(diagnostic, llvm::errs());
      return success();
    });
    OnnxImportOptions importOptions;
    importOptions.externalDataDir = options.externalDataDir;
    importOptions.followsLinks = !options.externalDataDir.empty();
    OwningOpRef<ModuleOp> module =
        importOnnxFile(input, &context, importOptions);
    if (!module || failed(verify(*module)) ||
        failed(fuse(*module, fuseOptions)))
      return 1;
    return failed(compileToSharedObject(*module, output, input, options));
  }
  if (!fuseOptions.empty())
    return fail("--fuse-options is for ONNX models; '" + input +
                "' is compiled as it is");
  std::string error;
  auto sources = std::make_shared<llvm::SourceMgr>();
  if (failed(openModuleFile(input, *sources, error)))
    return fail(error);
  SourceMgrDiagnosticHandler handler(*sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return 1;
  return failed(compileToSharedObject(*module, output, input, options));
}
