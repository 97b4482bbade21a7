//===- Module.cpp - A module of the C interface ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Context.h"
#include "Graph.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Export/OnnxExport.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/Passes.h"
#include "tandem/Registration/ModuleAlignment.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem::capi;
namespace fs = llvm::sys::fs;

/// A module may die on any thread, while others use its context. In a callback
/// the lock is held already.
Module::~Module() {
  std::unique_lock<std::mutex> lock(context->mutex, std::defer_lock);
  if (!context->isInCallback())
    lock.lock();
  op = {};
}

static TandemError missing(const char *what) {
  return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                   llvm::Twine(what) + " must not be null");
}

/// Runs `make` in a context, and gives out the module that it returns.
static TandemError
makeModule(TandemContext context, TandemModule *out, TandemErrorCode code,
           llvm::function_ref<OwningOpRef<ModuleOp>(MLIRContext *)> make) {
  if (!out)
    return missing("the place for the module");
  *out = nullptr;
  auto object = find(context);
  if (!object)
    return makeInvalidHandle("context");
  OwningOpRef<ModuleOp> op;
  TandemError error = object->run(code, "no module came out", [&] {
    op = make(&object->mlir);
    return success(static_cast<bool>(op));
  });
  if (!error)
    *out = addHandle<TandemModule>(
        std::make_shared<Module>(std::move(object), std::move(op)));
  return error;
}

/// Runs `write` on a module, and gives out the bytes that it writes.
static TandemError
makeText(TandemModule module, TandemBuffer *out,
         llvm::function_ref<LogicalResult(ModuleOp, llvm::raw_ostream &)> write,
         TandemErrorCode code = TANDEM_ERROR_INVALID_IR) {
  if (!out)
    return missing("the place for the bytes");
  *out = nullptr;
  auto object = find(module);
  if (!object)
    return makeInvalidHandle("module");
  std::string bytes;
  TandemError error = object->context->run(TANDEM_ERROR_INVALID_IR,
                                           "the module can't be written", [&] {
                                             llvm::raw_string_ostream os(bytes);
                                             return write(*object->op, os);
                                           });
  if (!error)
    *out = makeBuffer(std::move(bytes));
  return error;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> parse(std::unique_ptr<llvm::MemoryBuffer> buffer,
                                   MLIRContext *context) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, context);
}

TandemError tandemModuleParse(TandemContext context, const char *data,
                              size_t size, const char *name,
                              TandemModule *module) {
  if (!data)
    return missing("the text");
  return makeModule(
      context, module, TANDEM_ERROR_PARSE, [&](MLIRContext *mlir) {
        return parse(
            mlir::tandem::copyModule({data, size}, name ? name : "memory"),
            mlir);
      });
}

TandemError tandemModuleParseFile(TandemContext context, const char *path,
                                  TandemModule *module) {
  if (!path)
    return missing("the path");
  auto buffer = llvm::MemoryBuffer::getFile(
      path, /*IsText=*/false, /*RequiresNullTerminator=*/true,
      /*IsVolatile=*/false, mlir::tandem::moduleAlignment);
  if (!buffer) {
    if (module)
      *module = nullptr;
    return makeError(TANDEM_ERROR_IO, llvm::Twine(path) +
                                          ": error: cannot be read: " +
                                          buffer.getError().message());
  }
  return makeModule(
      context, module, TANDEM_ERROR_PARSE, [&](MLIRContext *mlir) {
        return parse(mlir::tandem::alignModule(std::move(*buffer)), mlir);
      });
}

static TandemError readImportOptions(const TandemImportOptions *options,
                                     mlir::tandem::OnnxImportOptions &result) {
  TandemImportOptions given = TANDEM_IMPORT_OPTIONS_INIT;
  TandemError error = readOptions(options, given, "TandemImportOptions");
  if (!error && given.externalDataDir) {
    result.externalDataDir = given.externalDataDir;
    result.followsLinks = true;
  }
  return error;
}

TandemError tandemModuleImportOnnxFile(TandemContext context, const char *path,
                                       const TandemImportOptions *options,
                                       TandemModule *module) {
  if (!path)
    return missing("the path");
  mlir::tandem::OnnxImportOptions given;
  if (TandemError error = readImportOptions(options, given))
    return error;
  TandemErrorCode code =
      fs::exists(path) ? TANDEM_ERROR_IMPORT : TANDEM_ERROR_IO;
  return makeModule(context, module, code, [&](MLIRContext *mlir) {
    return mlir::tandem::importOnnxFile(path, mlir, given);
  });
}

TandemError tandemModuleImportOnnx(TandemContext context, const char *data,
                                   size_t size, const char *name,
                                   const TandemImportOptions *options,
                                   TandemModule *module) {
  if (!data)
    return missing("the model");
  mlir::tandem::OnnxImportOptions given;
  if (TandemError error = readImportOptions(options, given))
    return error;
  // At the start of a page, as a mapped file, for what is printed of weights
  // tells how they are aligned.
  auto copy = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(
      size, name ? name : "memory", llvm::Align(4096));
  if (!copy)
    return makeError(TANDEM_ERROR_IMPORT, "there is no memory for the model");
  llvm::copy(llvm::ArrayRef(data, size), copy->getBufferStart());
  return makeModule(
      context, module, TANDEM_ERROR_IMPORT, [&](MLIRContext *mlir) {
        return mlir::tandem::importOnnxBuffer(std::move(copy), mlir, given);
      });
}

TandemError tandemModuleClone(TandemModule module, TandemModule *clone) {
  if (!clone)
    return missing("the place for the module");
  *clone = nullptr;
  auto object = find(module);
  if (!object)
    return makeInvalidHandle("module");
  OwningOpRef<ModuleOp> op;
  TandemError error = object->context->run(TANDEM_ERROR_INVALID_IR, "", [&] {
    op = object->op->clone();
    return success();
  });
  if (!error)
    *clone = addHandle<TandemModule>(
        std::make_shared<Module>(object->context, std::move(op)));
  return error;
}

void tandemModuleDestroy(TandemModule module) { destroy(module); }

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

TandemError tandemModuleVerify(TandemModule module) {
  auto object = find(module);
  if (!object)
    return makeInvalidHandle("module");
  return object->context->run(TANDEM_ERROR_INVALID_IR,
                              "the module does not verify",
                              [&] { return verify(*object->op); });
}

TandemError tandemModulePrint(TandemModule module,
                              const TandemPrintOptions *options,
                              TandemBuffer *text) {
  TandemPrintOptions given = TANDEM_PRINT_OPTIONS_INIT;
  if (TandemError error = readOptions(options, given, "TandemPrintOptions"))
    return error;
  return makeText(module, text, [&](ModuleOp op, llvm::raw_ostream &os) {
    OpPrintingFlags flags;
    if (given.debugInfo)
      flags.enableDebugInfo();
    if (given.generic)
      flags.printGenericOpForm();
    if (given.elideLargerThan >= 0) {
      flags.elideLargeElementsAttrs(given.elideLargerThan);
      flags.elideLargeResourceString(given.elideLargerThan);
    }
    op->print(os, flags);
    os << '\n';
    return success();
  });
}

TandemError tandemModuleWriteBytecode(TandemModule module,
                                      TandemBuffer *bytecode) {
  return makeText(module, bytecode, [](ModuleOp op, llvm::raw_ostream &os) {
    return writeBytecodeToFile(op, os);
  });
}

static TandemError readExportOptions(const TandemExportOptions *options,
                                     mlir::tandem::OnnxExportOptions &result) {
  TandemExportOptions given = TANDEM_EXPORT_OPTIONS_INIT;
  if (TandemError error = readOptions(options, given, "TandemExportOptions"))
    return error;
  if (given.weights < TANDEM_WEIGHTS_KEEP ||
      given.weights > TANDEM_WEIGHTS_COPY)
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "TandemExportOptions: weights is " +
                         llvm::Twine(given.weights) +
                         ", which is no TandemWeights");
  if (given.guard < TANDEM_EXPORTED_GUARD_IF ||
      given.guard > TANDEM_EXPORTED_GUARD_OP)
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "TandemExportOptions: guard is " +
                         llvm::Twine(given.guard) +
                         ", which is no TandemExportedGuard");
  if (given.externalDataDir)
    result.externalDataDir = given.externalDataDir;
  result.weights = static_cast<mlir::tandem::ExternalWeights>(given.weights);
  result.guard = static_cast<mlir::tandem::ExportedGuard>(given.guard);
  return nullptr;
}

TandemError tandemModuleExportOnnxFile(TandemModule module, const char *path,
                                       const TandemExportOptions *options) {
  if (!path)
    return missing("the path");
  mlir::tandem::OnnxExportOptions given;
  if (TandemError error = readExportOptions(options, given))
    return error;
  given.outputPath = path;
  auto object = find(module);
  if (!object)
    return makeInvalidHandle("module");
  // Goes to a file of another name first.
  std::string ioError;
  TandemError error = object->context->run(
      TANDEM_ERROR_EXPORT, "the module can't be exported", [&] {
        bool exported = true;
        llvm::Error written =
            llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
              exported =
                  succeeded(mlir::tandem::exportOnnx(*object->op, os, given));
              return exported ? llvm::Error::success()
                              : llvm::createStringError("not exported");
            });
        std::string text = llvm::toString(std::move(written));
        if (exported)
          ioError = std::move(text);
        return success(exported);
      });
  if (!error && !ioError.empty())
    return makeError(TANDEM_ERROR_IO,
                     llvm::Twine(path) +
                         ": error: cannot be written: " + ioError);
  return error;
}

TandemError tandemModuleExportOnnx(TandemModule module,
                                   const TandemExportOptions *options,
                                   TandemBuffer *model) {
  mlir::tandem::OnnxExportOptions given;
  if (TandemError error = readExportOptions(options, given))
    return error;
  if (given.weights != mlir::tandem::ExternalWeights::Keep)
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "external weights can be linked or copied for a file "
                     "only, not for a model in memory");
  return makeText(
      module, model,
      [&](ModuleOp op, llvm::raw_ostream &os) {
        return mlir::tandem::exportOnnx(op, os, given);
      },
      TANDEM_ERROR_EXPORT);
}

TandemError tandemModuleGetGraph(TandemModule module, TandemBuffer *json) {
  return makeText(module, json, [](ModuleOp op, llvm::raw_ostream &os) {
    writeGraph(op, os);
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

/// Runs the passes that `build` adds, and gives out the report.
static TandemError
runPasses(TandemModule module, TandemBuffer *report,
          llvm::function_ref<LogicalResult(PassManager &)> build) {
  if (report)
    *report = nullptr;
  auto object = find(module);
  if (!object)
    return makeInvalidHandle("module");
  bool built = false;
  std::optional<std::string> text;
  Context &context = *object->context;
  TandemError error = context.run(TANDEM_ERROR_PASS, "a pass failed", [&] {
    PassManager pm(&context.mlir);
    if (failed(build(pm)))
      return failure();
    built = true;
    LogicalResult result = pm.run(*object->op);
    text = std::move(context.report);
    return result;
  });
  if (report && text)
    *report = makeBuffer(std::move(*text));
  if (error && !built)
    if (auto made = find(error); made && made->code == TANDEM_ERROR_PASS)
      made->code = TANDEM_ERROR_PIPELINE;
  return error;
}

TandemError tandemModuleRunPipeline(TandemModule module, const char *pipeline,
                                    TandemBuffer *report) {
  if (!pipeline)
    return missing("the pipeline");
  return runPasses(module, report, [&](PassManager &pm) {
    std::string errors;
    llvm::raw_string_ostream os(errors);
    FailureOr<OpPassManager> parsed = parsePassPipeline(pipeline, os);
    StringRef anchor = succeeded(parsed) ? parsed->getOpAnchorName() : "";
    if (failed(parsed)) {
      // Behind the first line MLIR shows where in the text, for a terminal.
      emitError(UnknownLoc::get(pm.getContext()))
          << StringRef(errors).split('\n').first;
      return failure();
    }
    if (anchor != ModuleOp::getOperationName() &&
        anchor != OpPassManager::getAnyOpAnchorName()) {
      emitError(UnknownLoc::get(pm.getContext()))
          << "a pipeline begins with builtin.module(...), not with " << anchor;
      return failure();
    }
    static_cast<OpPassManager &>(pm) = std::move(*parsed);
    return success();
  });
}

TandemError tandemModuleFuse(TandemModule module,
                             const TandemFuseOptions *options,
                             TandemBuffer *report) {
  TandemFuseOptions given = TANDEM_FUSE_OPTIONS_INIT;
  if (TandemError error = readOptions(options, given, "TandemFuseOptions"))
    return error;
  if (given.guard < TANDEM_GUARD_CHAIN || given.guard > TANDEM_GUARD_NONE)
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "TandemFuseOptions: guard is " + llvm::Twine(given.guard) +
                         ", which is no TandemGuard");
  mlir::tandem::TandemFuseOptions fuse;
  fuse.maxTokens = given.maxTokens;
  fuse.limits = given.limits ? given.limits : "";
  fuse.worldSize = given.worldSize;
  fuse.guard = static_cast<mlir::tandem::GuardKind>(given.guard);
  fuse.batchInvariant = given.batchInvariant;
  fuse.mergeAllReduces = given.mergeAllReduces;
  fuse.require = given.requireAll ? mlir::tandem::RequireKind::All
                                  : mlir::tandem::RequireKind::Nothing;
  return runPasses(module, report, [&](PassManager &pm) {
    mlir::tandem::buildFusePipeline(pm, fuse);
    return success();
  });
}
