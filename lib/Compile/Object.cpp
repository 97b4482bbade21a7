//===- Object.cpp - LLVM code generation ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::tandem;

static std::string getHostFeatures() {
  std::string features;
  for (const auto &[name, isOn] : llvm::sys::getHostCPUFeatures())
    features += (features.empty() ? "" : ",") + std::string(isOn ? "+" : "-") +
                name.str();
  return features;
}

/// The machine to make code for; null after an error.
static std::unique_ptr<llvm::TargetMachine>
makeTargetMachine(Location loc, const CompileOptions &options) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  std::string name = options.triple.empty()
                         ? llvm::sys::getDefaultTargetTriple()
                         : options.triple;
  llvm::Triple triple(llvm::Triple::normalize(name));
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target || !target->hasTargetMachine()) {
    emitError(loc) << "there is no code generation for '" << name << "'"
                   << (error.empty() ? "" : ": ") << error;
    return nullptr;
  }
  if (!triple.isOSBinFormatELF()) {
    emitError(loc) << "shared objects are made in ELF only, and '" << name
                   << "' has another format";
    return nullptr;
  }
  std::string cpu = options.cpu, features = options.features;
  if (cpu == "native") {
    cpu = llvm::sys::getHostCPUName().str();
    std::string host = getHostFeatures();
    features = features.empty() ? host : host + "," + features;
  }
  // LLVM would only warn of what it doesn't know, and go on.
  std::unique_ptr<llvm::MCSubtargetInfo> known(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!known || (!cpu.empty() && !known->isCPUStringValid(cpu))) {
    emitError(loc) << "'" << name << "' has no processor '" << cpu << "'";
    return nullptr;
  }
  SmallVector<StringRef> words;
  StringRef(features).split(words, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    StringRef feature = word;
    bool isSigned = feature.consume_front("+") || feature.consume_front("-");
    if (!isSigned || llvm::none_of(known->getAllProcessorFeatures(),
                                   [&](const llvm::SubtargetFeatureKV &entry) {
                                     return feature == entry.Key;
                                   })) {
      emitError(loc) << "'" << name << "' has no feature '" << word
                     << "'; features are given as '+avx2,-fma'";
      return nullptr;
    }
  }
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    emitError(loc) << "there is no code generation for '" << name << "'";
  return machine;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = true;
  tuning.LoopInterleaving = true;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

LogicalResult mlir::tandem::compile::emitObject(ModuleOp module, StringRef path,
                                                const CompileOptions &options) {
  Location loc = module.getLoc();
  std::unique_ptr<llvm::TargetMachine> machine =
      makeTargetMachine(loc, options);
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "tandem");
  if (!code)
    return emitError(loc, "the module could not be turned into LLVM IR");
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  code->setPICLevel(llvm::PICLevel::BigPIC);
  optimize(*code, *machine);

  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return emitError(loc) << "cannot write '" << path
                          << "': " << error.message();
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return emitError(loc, "there is no object code for this target");
  passes.run(*code);
  os.close();
  if (os.has_error()) {
    std::error_code code = os.error();
    os.clear_error();
    return emitError(loc) << "cannot write '" << path
                          << "': " << code.message();
  }
  return success();
}
