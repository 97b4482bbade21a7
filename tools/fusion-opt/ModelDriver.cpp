//===- ModelDriver.cpp - Run passes on an ONNX model ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelDriver.h"

#include "../common/ModuleFile.h"
#include "DiagnosticPrinter.h"
#include "LargePages.h"
#include "RoundTrip.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Remarks/RemarkFormat.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

/// Turns on the remarks that the command line asks for, as mlir-opt does.
static LogicalResult enableRemarks(MLIRContext &context,
                                   const MlirOptMainConfig &config) {
  if (!config.shouldEmitRemarks())
    return success();
  // The engine looks at the filter for all kinds only where a kind's own
  // filter is set, be it empty.
  remark::RemarkCategories categories{
      config.getRemarksAllFilter(), config.getRemarksPassedFilter(),
      config.getRemarksMissedFilter(), config.getRemarksAnalyseFilter(),
      config.getRemarksFailedFilter()};
  std::unique_ptr<remark::detail::RemarkEmittingPolicyBase> policy;
  if (config.getRemarkPolicy() == RemarkPolicy::REMARK_POLICY_FINAL)
    policy = std::make_unique<remark::RemarkEmittingPolicyFinal>();
  else
    policy = std::make_unique<remark::RemarkEmittingPolicyAll>();

  std::string file = config.getRemarksOutputFile();
  switch (config.getRemarkFormat()) {
  case RemarkFormat::REMARK_FORMAT_STDOUT:
    return remark::enableOptimizationRemarks(context, nullptr,
                                             std::move(policy), categories,
                                             /*printAsEmitRemarks=*/true);
  case RemarkFormat::REMARK_FORMAT_YAML:
    return remark::enableOptimizationRemarksWithLLVMStreamer(
        context, file.empty() ? "mlir-remarks.yaml" : StringRef(file),
        llvm::remarks::Format::YAML, std::move(policy), categories);
  case RemarkFormat::REMARK_FORMAT_BITSTREAM:
    return remark::enableOptimizationRemarksWithLLVMStreamer(
        context, file.empty() ? "mlir-remarks.bitstream" : StringRef(file),
        llvm::remarks::Format::Bitstream, std::move(policy), categories);
  }
  return failure();
}

static bool wasGiven(StringRef option) {
  auto &options = llvm::cl::getRegisteredOptions();
  auto it = options.find(option);
  return it != options.end() && it->second->getNumOccurrences() > 0;
}

/// Puts the passes of the command line into `pm`; where it names none, the
/// default. An empty --pass-pipeline names none on purpose.
static LogicalResult setupPasses(PassManager &pm, bool isModel,
                                 const MlirOptMainConfig &config) {
  pm.enableVerifier(config.shouldVerifyPasses());
  if (failed(config.setupPassPipeline(pm)))
    return failure();
  if (!isModel || !pm.empty() || wasGiven("pass-pipeline"))
    return success();
  if (failed(parsePassPipeline("tandem-fuse-pipeline", pm)))
    return failure();
  // Checking a large graph takes as long as raising it; without being asked,
  // only what comes out at the end is checked.
  if (!wasGiven("verify-each"))
    pm.enableVerifier(false);
  if (config.shouldDumpPassPipeline()) {
    pm.dump();
    llvm::errs() << '\n';
  }
  return success();
}

/// The folder in which weights are looked for when MLIR text does not say.
static std::string folderOf(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  return folder.empty() ? "." : folder.str();
}

static LogicalResult printModule(ModuleOp module, raw_ostream &os,
                                 const MlirOptMainConfig &config) {
  if (!config.shouldEmitBytecode()) {
    if (config.bytecodeVersionToEmit())
      return emitError(module.getLoc(),
                       "a bytecode version is given, but no bytecode is to be "
                       "written (--emit-bytecode, or -o NAME.mlirbc)");
    AsmState state(
        module, OpPrintingFlags().assumeVerified(config.shouldVerifyPasses()));
    module.print(os, state);
    os << '\n';
    return success();
  }
  BytecodeWriterConfig writer;
  if (std::optional<int64_t> version = config.bytecodeVersionToEmit())
    writer.setDesiredBytecodeVersion(*version);
  if (config.shouldElideResourceDataFromBytecode())
    writer.setElideResourceDataFlag();
  return writeBytecodeToFile(module, os, writer);
}

static OwningOpRef<ModuleOp> parseModuleFile(StringRef path,
                                             MLIRContext *context) {
  std::string error;
  llvm::SourceMgr sources;
  if (failed(openModuleFile(path, sources, error))) {
    emitError(UnknownLoc::get(context), error);
    return nullptr;
  }
  return parseSourceFile<ModuleOp>(sources, context);
}

FailureOr<std::optional<FusionCount>> mlir::tandem::runOnModel(
    StringRef path, bool isModel, const OnnxImportOptions &options,
    raw_ostream &os, const std::optional<OnnxExportOptions> &onnx,
    DialectRegistry &registry, const MlirOptMainConfig &config) {
  // A graph takes some 25 times the memory of its file, without the weights,
  // which are not copied.
  constexpr uint64_t memoryOverFile = 25, mostForFile = uint64_t(256) << 20;
  uint64_t fileSize = 0;
  if (!llvm::sys::fs::file_size(path, fileSize))
    expectAllocations(std::min(fileSize * memoryOverFile, mostForFile));

  // A model is one function: there is nothing to run in parallel, and a
  // context without threads needs no locks. It is never freed, and neither is
  // the module: the process ends soon, and that frees both at once.
  static MLIRContext *theContext =
      new MLIRContext(registry, MLIRContext::Threading::DISABLED);
  MLIRContext &context = *theContext;
  // The constructor leaves the uniquers' locks on.
  context.disableMultithreading();
  context.allowUnregisteredDialects(config.shouldAllowUnregisteredDialects());
  DiagnosticPrinter diagnostics(&context, config);
  tracing::InstallDebugHandler debugHandler(context, config.getDebugConfig());
  if (failed(enableRemarks(context, config)))
    return failure();
  // Some remarks are only written at their end.
  llvm::scope_exit endRemarks([&context] { context.setRemarkEngine(nullptr); });
  std::optional<FusionCount> count;
  context.getOrLoadDialect<TandemDialect>()->setFusionReportHandler(
      [&count](const FusionReport &report) {
        if (!count)
          count.emplace();
        count->add(report);
      });

  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();

  // A pipeline that does not exist is told before the work begins.
  PassManager pm(&context, ModuleOp::getOperationName(),
                 PassManager::Nesting::Implicit);
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  pm.enableTiming(timing);
  if (failed(setupPasses(pm, isModel, config)))
    return failure();

  TimingScope importTiming = timing.nest("Import");
  ModuleOp module = (isModel ? importOnnxFile(path, &context, options)
                             : parseModuleFile(path, &context))
                        .release();
  importTiming.stop();
  if (!module)
    return failure();
  if (config.shouldVerifyRoundtrip() &&
      failed(verifyRoundTrip(module, registry)))
    return failure();

  if (failed(pm.run(module)))
    return failure();
  if (!config.getReproducerFilename().empty())
    makeReproducer(pm.getOpAnchorName(), pm.getPasses(), module,
                   config.getReproducerFilename());
  if (config.shouldVerifyRoundtrip() &&
      failed(verifyRoundTrip(module, registry)))
    return failure();

  TimingScope outputTiming = timing.nest("Output");
  if (config.shouldVerifyPasses() && failed(verify(module)))
    return failure();
  if (!onnx) {
    if (failed(printModule(module, os, config)))
      return failure();
    return count;
  }
  OnnxExportOptions exportOptions = *onnx;
  if (!isModel && exportOptions.externalDataDir.empty())
    exportOptions.externalDataDir = folderOf(path);
  if (failed(exportOnnx(module, os, exportOptions)))
    return failure();
  return count;
}
