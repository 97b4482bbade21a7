//===- Compile.cpp - From modules to shared objects -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compile/Compile.h"

#include "Stages.h"

#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Passes/Passes.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::tandem;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

void mlir::tandem::registerCompileDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Lowers to the LLVM dialect; `moduleInfo` is the JSON on the way.
static LogicalResult lower(ModuleOp module, const CompileOptions &options,
                           SmallVectorImpl<std::string> &deviceFunctions) {
  MLIRContext *context = module.getContext();
  {
    PassManager pm(context);
    TandemOnnxToLinalgOptions onnxOptions;
    onnxOptions.externalDataDir = options.externalDataDir;
    pm.addPass(createTandemOnnxToLinalg(onnxOptions));
    pm.addPass(createCanonicalizerPass());
    // Sizes of results in terms of arguments' sizes.
    pm.addPass(memref::createResolveShapedTypeResultDimsPass());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    // Checks that became trivial go.
    pm.addPass(createCanonicalizerPass());
    if (failed(pm.run(module)))
      return failure();
  }
  compile::orderAdds(module);
  compile::hoistChecks(module);
  deviceFunctions = compile::findDeviceFunctions(module);
  compile::lowerAddChains(module);
  PassManager pm(context);
  pm.addPass(compile::createFuseElementwise());
  buildLowerPipeline(pm);
  return pm.run(module);
}

/// Runs `linker`, whose words go to the file `log`.
static LogicalResult runLinker(Location loc, StringRef linker,
                               ArrayRef<StringRef> arguments, StringRef log,
                               bool isForOther) {
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(linker);
  if (!program)
    return emitError(loc) << "'" << linker
                          << "', which links shared objects, is not found; "
                             "install a C compiler (Debian: gcc) or name one "
                             "with --linker";
  SmallVector<StringRef> words{linker};
  words.append(arguments.begin(), arguments.end());
  std::string error;
  std::optional<StringRef> redirects[] = {std::nullopt, log, log};
  int status = llvm::sys::ExecuteAndWait(*program, words, std::nullopt,
                                         redirects, 0, 0, &error);
  if (status == 0)
    return success();
  // The first thing that it says is the cause; the rest follows from that. An
  // assembler has a headline, though.
  auto said = llvm::MemoryBuffer::getFile(log);
  if (error.empty() && said) {
    SmallVector<StringRef> lines;
    (*said)->getBuffer().trim().split(lines, '\n');
    const StringRef *line = llvm::find_if(lines, [](StringRef text) {
      return text.contains_insensitive("error");
    });
    bool isHeadline = lines.front().ends_with("Assembler messages:");
    error = (isHeadline && line != lines.end() ? *line : lines.front())
                .rtrim()
                .str();
  }
  auto diagnostic = emitError(loc)
                    << "'" << *program << "' could not link the shared object"
                    << (error.empty() ? "" : ": ") << error;
  if (isForOther)
    diagnostic << "; --linker must name a C compiler for the --target, like "
                  "aarch64-linux-gnu-gcc";
  return diagnostic;
}

static LogicalResult writeFile(Location loc, StringRef file, StringRef text) {
  std::error_code code;
  llvm::raw_fd_ostream os(file, code);
  if (!code) {
    os << text;
    os.close();
    code = os.error();
    os.clear_error();
  }
  if (code)
    return emitError(loc) << "cannot write '" << file
                          << "': " << code.message();
  return success();
}

LogicalResult
mlir::tandem::compileToSharedObject(ModuleOp module, StringRef output,
                                    StringRef name,
                                    const CompileOptions &options) {
  Location loc = module.getLoc();
  if (failed(compile::checkNames(module)))
    return failure();
  SmallVector<std::string> deviceFunctions;
  if (failed(lower(module, options, deviceFunctions)))
    return failure();
  auto infoGlobal = module.lookupSymbol<LLVM::GlobalOp>("tandem_module_info");
  auto infoText =
      infoGlobal ? dyn_cast_or_null<StringAttr>(infoGlobal.getValueOrNull())
                 : nullptr;
  if (!infoText)
    return emitError(loc, "the module came out of the lowering without a "
                          "description of itself");
  std::string moduleInfo = infoText.getValue().rtrim('\0').str();
  if (failed(compile::addEntryPoints(module, deviceFunctions)))
    return failure();

  // All that is on the way lies in a folder of its own.
  SmallString<128> folder;
  if (std::error_code code = fs::createUniqueDirectory("tandem", folder))
    return emitError(loc) << "cannot make a temporary folder: "
                          << code.message();
  auto removeFolder =
      llvm::scope_exit([&] { (void)fs::remove_directories(folder); });
  auto inFolder = [&](StringRef file) {
    SmallString<128> result(folder);
    path::append(result, file);
    return std::string(result);
  };

  std::string dataFile = inFolder("data.bin"), assembly = inFolder("data.S"),
              object = inFolder("code.o"), script = inFolder("exports.map");
  std::error_code code;
  llvm::raw_fd_ostream data(dataFile, code);
  if (code)
    return emitError(loc) << "cannot write '" << dataFile
                          << "': " << code.message();
  FailureOr<SmallVector<compile::DataSymbol>> symbols =
      compile::extractData(module, options.minDataBytes, data);
  data.close();
  if (data.has_error()) {
    code = data.error();
    data.clear_error();
    return emitError(loc) << "cannot write '" << dataFile
                          << "': " << code.message();
  }
  if (failed(symbols))
    return failure();
  std::string text = "\t.section .rodata.tandem,\"a\",%progbits\n";
  std::string quoted;
  for (char c : dataFile)
    quoted += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  for (const compile::DataSymbol &symbol : *symbols)
    text += ("\t.balign 64\n\t.globl " + symbol.name + "\n\t.hidden " +
             symbol.name + "\n\t.type " + symbol.name + ", %object\n" +
             symbol.name + ":\n\t.incbin \"" + quoted + "\", " +
             Twine(symbol.offset) + ", " + Twine(symbol.bytes) + "\n\t.size " +
             symbol.name + ", " + Twine(symbol.bytes) + "\n")
                .str();
  text += "\t.section .note.GNU-stack,\"\",%progbits\n";
  if (failed(writeFile(loc, assembly, text)) ||
      failed(writeFile(loc, script,
                       "{ global: _mlir_ciface_*; tandem_packed_*; "
                       "tandem_module_*; local: *; };\n")) ||
      failed(compile::emitObject(module, object, options)))
    return failure();

  // A rename would replace a device.
  fs::file_status status;
  if (!fs::status(output, status) && fs::exists(status) &&
      !fs::is_regular_file(status))
    return emitError(loc) << "cannot write '" << output
                          << "': it is no regular file";
  // Written beside its final name, so that it appears at once.
  SmallString<128> temporary;
  code = fs::createUniqueFile(output + ".%%%%%%", temporary);
  if (code)
    return emitError(loc) << "cannot write '" << output
                          << "': " << code.message();
  (void)fs::remove(temporary);
  auto removeTemporary = llvm::scope_exit([&] { (void)fs::remove(temporary); });
  std::string versions = "--version-script=" + script;
  if (failed(runLinker(loc, options.linker,
                       {"-shared", "-o", temporary, object, assembly,
                        "-Xlinker", versions, "-Wl,-z,now", "-Wl,-z,relro",
                        "-Wl,--as-needed", "-lm"},
                       inFolder("linker.log"), !options.triple.empty())) ||
      failed(compile::checkSymbols(module, object, temporary, options.linker)))
    return failure();

  SmallString<128> header(output);
  path::replace_extension(header, "h");
  if (header == output)
    header += ".h";
  if (failed(writeFile(loc, header,
                       compile::makeHeader(moduleInfo, path::filename(header),
                                           path::filename(name)))))
    return failure();
  code = fs::rename(temporary, output);
  if (code) {
    (void)fs::remove(header);
    return emitError(loc) << "cannot write '" << output
                          << "': " << code.message();
  }
  removeTemporary.release();
  return success();
}
