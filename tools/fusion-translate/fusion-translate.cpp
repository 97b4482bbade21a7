//===- fusion-translate.cpp - Between ONNX and MLIR -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Not built on mlirTranslateMain: that hands a translation the contents of a
// file, and external data is found beside the file.
//
//===----------------------------------------------------------------------===//

#include "../common/ExportFlags.h"
#include "../common/ModuleFile.h"
#include "../common/OutputFile.h"
#include "../common/Summary.h"
#include "../common/Version.h"
#include "CompileModel.h"

#include "tandem/Import/OnnxImport.h"
#include "tandem/Registration/Registration.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

static constexpr const char help[] =
    R"help(fusion-translate: turns a model from one format into another.

Usage: fusion-translate --import-onnx MODEL.onnx [OPTION...] [-o OUTPUT]
       fusion-translate --export-onnx INPUT [OPTION...] -o MODEL.onnx
       fusion-translate --compile MODEL [OPTION...] -o MODEL.so

  --import-onnx             Read an ONNX model and write it as MLIR: each node
                            becomes an op "onnx.<OpType>" with the node's name,
                            its types and shapes worked out. Weights in
                            external files are not read and need not be there.
  --export-onnx             Write an ONNX model. INPUT is MLIR text or bytecode
                            that came from one, or an ONNX model.
  --weights=keep|link|copy  With --export-onnx into another folder: leave the
                            external weights where they are (references are
                            rewritten if the weights are below that folder),
                            make hard links, or copy them.
  --onnx-guard=if|op        With --export-onnx: check the token count in an If
                            node, or inside the fused op.
  -o FILE                   Where to write. FILE.mlirbc is MLIR bytecode, any
                            other name MLIR text; - is standard output, and the
                            default.
  --emit-bytecode           Write MLIR bytecode whatever the file is called.
  --external-data-dir=DIR   The folder of the model's external data files.
                            Default: the input's own folder. If named, symbolic
                            links in it are followed wherever they lead, as in
                            Hugging Face's cache.

  --compile                 Compile an .onnx, .mlir or .mlirbc file to a shared
                            object, with a C header beside it. An ONNX model is
                            fused first. The object needs libc, libm and, in the
                            process that loads it, the runtime's functions.
  --fuse-options=OPTIONS    Options of tandem-fuse, e.g. "max-tokens=64".
  --target=TRIPLE           What to compile for. Default: this host.
  --cpu=NAME                Processor, as LLVM names it; native: this one.
                            Default: any of the architecture.
  --features=LIST           Features of the processor: +avx2,-fma
  --linker=PROGRAM          The C compiler that assembles and links. Default: cc.

  --mlir-print-debuginfo    Write locations: model file, node number and name.
  --mlir-elide-elementsattrs-if-larger=N
                            Leave out constants of more than N elements.
  --mlir-elide-resource-strings-if-larger=N
                            Leave out large constants of more than N characters.
  --help-hidden             All flags.
  --version                 Print the version.

Examples
  Look at a model's graph:
    fusion-translate --import-onnx model.onnx --mlir-elide-elementsattrs-if-larger=8
  Import it once, for many runs of fusion-opt:
    fusion-translate --import-onnx model.onnx -o model.mlirbc
  Compile a block, and run it on two ranks:
    fusion-translate --compile block.onnx -o block.so
    fusion-run block.so --ranks=2 --input=in.npz --output=out.npz
  See what fuses in it: fusion-opt model.onnx (fusion-opt --help).

Exit status: 0 when all went well, 1 otherwise, with an error on standard
error. Every fault of a model that can be found in one run is reported, one a
line, as MODEL:NODE:1: error: ..., NODE being the node's position in its graph,
counted from one.
)help";

static int fail(const Twine &message) {
  llvm::errs() << "fusion-translate: error: " << message << '\n';
  return 1;
}

static int importModel(StringRef input, StringRef output, bool emitBytecode,
                       const OnnxImportOptions &options) {
  if (input == "-")
    return fail("an ONNX model can't come from standard input: its weights "
                "are found beside its file; name the file");
  if (output.ends_with(".onnx"))
    return fail("--import-onnx writes MLIR, and '" + output +
                "' is the name of an ONNX model");
  bool isSame = false;
  if (output != "-" && !llvm::sys::fs::equivalent(input, output, isSame) &&
      isSame)
    return fail("'" + input + "' would be overwritten while it is read");

  DialectRegistry registry;
  registerOnnxImportDialects(registry);
  // One module, built by one thread: locks would only cost time.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // The constructor leaves the uniquers' locks on.
  context.disableMultithreading();
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    printOnnxDiagnostic(diagnostic, llvm::errs());
    return success();
  });
  OwningOpRef<ModuleOp> module = importOnnxFile(input, &context, options);
  if (!module || failed(verify(*module)))
    return 1;

  OutputFile file;
  std::string error;
  if (failed(file.open(output, error)))
    return fail(error);
  warnOfOutputFormat("fusion-translate", output, emitBytecode,
                     "and --compile makes a shared object");
  if (emitBytecode || output.ends_with(".mlirbc")) {
    if (failed(writeBytecodeToFile(*module, file.os())))
      return 1;
  } else {
    // Imported modules are valid, so there is no need to verify once more.
    module->print(file.os(), OpPrintingFlags().assumeVerified());
    file.os() << '\n';
  }
  if (failed(file.commit(error)))
    return fail(error);
  return 0;
}

static int exportModel(StringRef input, StringRef output,
                       OnnxExportOptions options) {
  if (input == "-")
    return fail("--export-onnx can't read standard input: weights are found "
                "beside the input's file; name the file");
  if (output == "-" && llvm::outs().is_displayed())
    return fail("an ONNX model is no text; name a file with -o");
  bool isModel = isOnnxFileName(input);
  if (output != "-" && !isOnnxFileName(output))
    return fail("--export-onnx writes an ONNX model, and '" + output +
                "' does not end in .onnx");

  DialectRegistry registry;
  // Whatever the module holds must parse, so that it can be told what of it has
  // no ONNX form.
  registerToolDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // Faults of MLIR text are told as MLIR tells them, those of a model by node.
  llvm::SourceMgr sources;
  std::optional<SourceMgrDiagnosticHandler> textHandler;
  std::optional<ScopedDiagnosticHandler> modelHandler;
  if (isModel)
    modelHandler.emplace(&context, [](Diagnostic &diagnostic) {
      printOnnxDiagnostic(diagnostic, llvm::errs());
      return success();
    });
  else
    textHandler.emplace(sources, &context);
  OwningOpRef<ModuleOp> module;
  if (isModel) {
    OnnxImportOptions importOptions;
    importOptions.externalDataDir = options.externalDataDir;
    importOptions.followsLinks = !options.externalDataDir.empty();
    module = importOnnxFile(input, &context, importOptions);
  } else {
    std::string error;
    if (failed(openModuleFile(input, sources, error)))
      return fail(error);
    module = parseSourceFile<ModuleOp>(sources, &context);
    if (options.externalDataDir.empty()) {
      StringRef folder = llvm::sys::path::parent_path(input);
      options.externalDataDir = folder.empty() ? "." : folder.str();
    }
  }
  if (!module)
    return 1;
  OutputFile file;
  std::string error;
  if (failed(file.open(output, error)))
    return fail(error);
  if (failed(exportOnnx(*module, file.os(), options)))
    return 1;
  if (failed(file.commit(error)))
    return fail(error);
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  for (StringRef argument : ArrayRef(argv + 1, argv + argc)) {
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      llvm::outs() << help;
      return 0;
    }
    if (argument == "--version" || argument == "-version") {
      printVersion(llvm::outs());
      return 0;
    }
  }

  // The command line's parser would only say that it knows no such argument.
  if (std::string option = findFuseOption(ArrayRef(argv + 1, argv + argc));
      !option.empty())
    return fail(option +
                " is for the pass tandem-fuse: with --compile write "
                "--fuse-options=\"" +
                option + "\"; fusion-opt fuses too (see fusion-opt --help)");
  llvm::cl::opt<bool> importOnnx("import-onnx",
                                 llvm::cl::desc("Read an ONNX model"));
  llvm::cl::opt<bool> exportOnnxFlag("export-onnx",
                                     llvm::cl::desc("Write an ONNX model"));
  llvm::cl::opt<std::string> input(llvm::cl::Positional,
                                   llvm::cl::desc("<model>"));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("Output file"),
                                    llvm::cl::value_desc("file"),
                                    llvm::cl::init("-"));
  llvm::cl::opt<bool> emitBytecode("emit-bytecode",
                                   llvm::cl::desc("Write MLIR bytecode"));
  registerExportFlags();
  llvm::cl::opt<bool> compile("compile",
                              llvm::cl::desc("Compile to a shared object"));
  llvm::cl::opt<std::string> fuseOptions(
      "fuse-options", llvm::cl::desc("Options of tandem-fuse"),
      llvm::cl::value_desc("options"));
  CompileOptions compileOptions;
  llvm::cl::opt<std::string, true> triple(
      "target", llvm::cl::desc("Target triple"),
      llvm::cl::location(compileOptions.triple));
  llvm::cl::opt<std::string, true> cpu("cpu", llvm::cl::desc("Processor"),
                                       llvm::cl::location(compileOptions.cpu));
  llvm::cl::opt<std::string, true> features(
      "features", llvm::cl::desc("Features of the processor"),
      llvm::cl::location(compileOptions.features));
  llvm::cl::opt<std::string, true> linker(
      "linker", llvm::cl::desc("Program that links"),
      llvm::cl::location(compileOptions.linker));
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  llvm::cl::ParseCommandLineOptions(argc, argv, "fusion-translate\n");

  if (int(importOnnx) + int(exportOnnxFlag) + int(compile) != 1)
    return fail("say what to do: --import-onnx, --export-onnx or --compile "
                "(see --help)");
  if (input.empty())
    return fail("no model is named (see --help)");
  if (StringRef flag = getGivenExportFlag(); !flag.empty() && !exportOnnxFlag)
    return fail(flag + " is for --export-onnx");
  OnnxExportOptions exportOptions = getExportFlags(output);
  if (exportOnnxFlag)
    return exportModel(input, output, exportOptions);
  if (compile) {
    compileOptions.externalDataDir = exportOptions.externalDataDir;
    return compileModel(input, output, fuseOptions, compileOptions);
  }
  OnnxImportOptions options;
  options.externalDataDir = exportOptions.externalDataDir;
  options.followsLinks = !options.externalDataDir.empty();
  return importModel(input, output, emitBytecode, options);
}
