//===- fusion-opt.cpp - The optimizer driver ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with Tandem's dialect and passes, that also takes ONNX models.
//
//===----------------------------------------------------------------------===//

#include "../common/Version.h"
#include "Help.h"
#include "ModelDriver.h"
#include "RoundTrip.h"

#include "../common/ExportFlags.h"
#include "../common/ModuleFile.h"
#include "../common/OutputFile.h"
#include "../common/Summary.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Registration/Registration.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "fusion-opt: error: " << message << '\n';
  return failure();
}

/// Whether `contents` begin as an ONNX model's do: with the IR version, a
/// small number in field 1. No MLIR text or bytecode begins with that byte.
static bool looksLikeModel(StringRef contents) {
  return contents.size() > 2 && contents[0] == '\x08' && contents[1] > 0 &&
         contents[1] < 64;
}

/// Rejects the flags that mean nothing for a model, since it has no text.
static LogicalResult checkModelFlags(StringRef path, bool isOutput,
                                     const MlirOptMainConfig &config) {
  StringRef flag;
  if (!config.inputSplitMarker().empty())
    flag = "--split-input-file";
  else if (config.shouldVerifyDiagnostics())
    flag = "--verify-diagnostics";
  else if (config.shouldUseExplicitModule())
    flag = "--no-implicit-module";
  else if (config.shouldRunReproducer())
    flag = "--run-reproducer";
  else if (!config.getIrdlFile().empty())
    flag = "--irdl-file";
  else
    return success();
  if (isOutput)
    return fail(flag + " is for MLIR output, and '" + path +
                "' is an ONNX model");
  return fail(flag + " is for MLIR input, and '" + path +
              "' is an ONNX model; import it first: fusion-opt " + path +
              " --pass-pipeline=\"builtin.module()\" -o graph.mlir");
}

/// Takes --verify-roundtrip over from MlirOptMain, whose own check looks at the
/// input only and can't read back bytecode that holds resources.
static void takeOverRoundTrip(MlirOptMainConfig &config,
                              const DialectRegistry &registry) {
  if (!config.shouldVerifyRoundtrip())
    return;
  MlirOptMainConfig given = config;
  config.verifyRoundtrip(false);
  config.setPassPipelineSetupFn([given, &registry](PassManager &pm) {
    pm.addPass(createVerifyRoundTripPass(registry));
    if (failed(given.setupPassPipeline(pm)))
      return failure();
    if (pm.size() > 1)
      pm.addPass(createVerifyRoundTripPass(registry));
    return success();
  });
}

/// Rejects passes and options that there are not. LLVM prints what is wrong
/// with an option's value by itself; MLIR then adds an error without a text,
/// which is left out here.
static LogicalResult checkPasses(const MlirOptMainConfig &config,
                                 const DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    if (!text.empty())
      llvm::errs() << "fusion-opt: error: " << text << '\n';
  });
  PassManager pm(&context, ModuleOp::getOperationName(),
                 PassManager::Nesting::Implicit);
  return config.setupPassPipeline(pm);
}

/// Checks the filters of remarks, since one that is mistyped shows nothing and
/// looks as if there were nothing to show.
static LogicalResult checkRemarkFilters(const MlirOptMainConfig &config) {
  static constexpr StringLiteral category("tandem-fuse");
  bool matches = false;
  std::string all;
  for (const std::string &filter :
       {config.getRemarksAllFilter(), config.getRemarksPassedFilter(),
        config.getRemarksFailedFilter(), config.getRemarksMissedFilter(),
        config.getRemarksAnalyseFilter()}) {
    if (filter.empty())
      continue;
    llvm::Regex regex(filter);
    std::string error;
    if (!regex.isValid(error))
      return fail("the filter of remarks '" + filter +
                  "' is no regular expression: " + error);
    matches |= regex.match(category);
    all += all.empty() ? "'" + filter + "'" : ", '" + filter + "'";
  }
  if (!all.empty() && !matches)
    llvm::errs() << "fusion-opt: warning: the filter of remarks " << all
                 << " matches none of Tandem's; their category is " << category
                 << '\n';
  return success();
}

static LogicalResult run(StringRef input, StringRef outputPath,
                         DialectRegistry &registry) {
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects()) {
    llvm::outs() << "Available Dialects: ";
    llvm::interleave(registry.getDialectNames(), llvm::outs(), ",");
    llvm::outs() << '\n';
    return success();
  }
  if (config.shouldListPasses()) {
    printRegisteredPasses();
    return success();
  }

  if (outputPath.ends_with(".mlirbc"))
    config.emitBytecode(true);

  if (failed(checkRemarkFilters(config)))
    return failure();
  if (input == "-" && llvm::sys::Process::StandardInIsUserInput())
    llvm::errs() << "(reading MLIR from standard input; fusion-opt --help "
                    "says what else there is)\n";
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> contents = openModuleFile(input, error);
  if (!contents)
    return fail(error);
  bool isMlir = input.ends_with(".mlir") || input.ends_with(".mlirbc");
  bool isModel = input.ends_with(".onnx") ||
                 (!isMlir && looksLikeModel(contents->getBuffer()));
  if (isModel && input == "-")
    return fail("an ONNX model can't come from standard input: its weights "
                "are found beside its file; name the file");
  bool writesModel = outputPath.ends_with(".onnx");
  if (StringRef flag = getGivenExportFlag(); !flag.empty() && !writesModel)
    return fail(flag + " is for ONNX output, and '" + outputPath +
                "' does not end in .onnx");
  if ((isModel && failed(checkModelFlags(input, false, config))) ||
      (writesModel && failed(checkModelFlags(outputPath, true, config))))
    return failure();
  if (writesModel && input == "-")
    return fail("an ONNX model can't be made of standard input: its weights "
                "are found beside the input; name the file");

  if (!config.shouldRunReproducer() && failed(checkPasses(config, registry)))
    return failure();
  OutputFile output;
  if (failed(output.open(outputPath, error)))
    return fail(error);
  std::optional<FusionCount> count;
  if (isModel)
    warnOfOutputFormat("fusion-opt", outputPath, config.shouldEmitBytecode(),
                       "and those in .onnx an ONNX model");
  if (isModel || writesModel) {
    contents.reset();
    OnnxExportOptions exportOptions = getExportFlags(outputPath);
    OnnxImportOptions importOptions;
    importOptions.externalDataDir = exportOptions.externalDataDir;
    importOptions.followsLinks = !importOptions.externalDataDir.empty();
    std::optional<OnnxExportOptions> onnx;
    if (writesModel)
      onnx = std::move(exportOptions);
    auto counted = runOnModel(input, isModel, importOptions, output.os(), onnx,
                              registry, config);
    if (failed(counted))
      return failure();
    count = *counted;
  } else {
    takeOverRoundTrip(config, registry);
    if (failed(MlirOptMain(output.os(), std::move(contents), registry, config)))
      return failure();
  }
  if (failed(output.commit(error)))
    return fail(error);
  if (count) {
    count->isExplained |= config.shouldEmitRemarks();
    printSummary("fusion-opt", *count,
                 "run it with --remarks-filter=tandem-fuse, or with "
                 "--tandem-fuse-pipeline=\"report=FILE\"");
  }
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  DialectRegistry registry;
  registerToolDialects(registry);
  registerToolPasses();

  for (StringRef argument : ArrayRef(argv + 1, argv + argc)) {
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      printHelp(llvm::outs());
      return 0;
    }
    if (argument.starts_with("--fuse-options"))
      return asMainReturnCode(
          fail("--fuse-options is for fusion-translate: write "
               "--tandem-fuse-pipeline=\"NAME=VALUE\""));
  }
  // The command line's parser would only say that it knows no such argument.
  if (std::string option = findFuseOption(ArrayRef(argv + 1, argv + argc));
      !option.empty())
    return asMainReturnCode(fail(option +
                                 " is for the pass tandem-fuse: write " +
                                 "--tandem-fuse-pipeline=\"" + option + "\""));
  registerExportFlags();
  llvm::cl::SetVersionPrinter(printVersion);
  auto [input, output] = registerAndParseCLIOptions(
      argc, argv, "fusion-opt: mlir-opt with Tandem, for ONNX models too\n",
      registry);
  return asMainReturnCode(run(input, output, registry));
}
