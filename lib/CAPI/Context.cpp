//===- Context.cpp - A context of the C interface -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Context.h"

#include "mlir/IR/Remarks.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Registration/Registration.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem::capi;

/// The contexts whose callbacks this thread is in, the innermost last.
static thread_local llvm::SmallVector<const Context *, 2> callbackContexts;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  mlir::tandem::registerToolDialects(registry);
  return registry;
}

static void registerPassesOnce() {
  static std::once_flag once;
  std::call_once(once, mlir::tandem::registerToolPasses);
}

Context::Context(const TandemContextOptions &options)
    : mlir(makeRegistry(), options.multithreading
                               ? MLIRContext::Threading::ENABLED
                               : MLIRContext::Threading::DISABLED) {
  registerPassesOnce();
  mlir.allowUnregisteredDialects(options.allowUnregisteredDialects);
  mlir.getDiagEngine().registerHandler(
      [this](Diagnostic &diagnostic) { handleDiagnostic(diagnostic); });
  mlir.getOrLoadDialect<TandemDialect>()->setFusionReportHandler(
      [this](const FusionReport &given) {
        std::string text;
        llvm::raw_string_ostream os(text);
        given.writeJSON(os);
        report = std::move(text);
      });
}

bool Context::isInCallback() const {
  return llvm::is_contained(callbackContexts, this);
}

TandemError Context::run(TandemErrorCode code, const char *otherwise,
                         llvm::function_ref<LogicalResult()> action) {
  if (isInCallback())
    return makeError(TANDEM_ERROR_BUSY,
                     "a callback must not use the context that it is called "
                     "for");
  std::lock_guard<std::mutex> lock(mutex);
  errors.clear();
  report.reset();
  LogicalResult result = action();
  if (succeeded(result))
    return nullptr;
  llvm::StringRef message = llvm::StringRef(errors).rtrim('\n');
  return makeError(code,
                   message.empty() ? llvm::StringRef(otherwise) : message);
}

void Context::callBack(llvm::function_ref<void()> callback) {
  callbackContexts.push_back(this);
  callback();
  callbackContexts.pop_back();
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

static FileLineColLoc findPlace(Location loc) {
  FileLineColLoc place;
  loc->walk([&](Location inner) {
    place = dyn_cast<FileLineColLoc>(inner);
    return place ? WalkResult::interrupt() : WalkResult::advance();
  });
  return place;
}

static int32_t getSeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return TANDEM_SEVERITY_NOTE;
  case DiagnosticSeverity::Warning:
    return TANDEM_SEVERITY_WARNING;
  case DiagnosticSeverity::Error:
    return TANDEM_SEVERITY_ERROR;
  case DiagnosticSeverity::Remark:
    return TANDEM_SEVERITY_REMARK;
  }
  return TANDEM_SEVERITY_ERROR;
}

void Context::handleDiagnostic(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    llvm::raw_string_ostream os(errors);
    printOnnxDiagnostic(diagnostic, os);
  }
  if (!diagnosticCallback)
    return;
  auto pass = [&](Diagnostic &one) {
    std::string message = one.str();
    std::string location = getLocationText(one.getLocation());
    TandemDiagnostic c = {sizeof(c),
                          getSeverity(one.getSeverity()),
                          message.c_str(),
                          location.c_str(),
                          "",
                          0,
                          0};
    std::string file;
    if (FileLineColLoc place = findPlace(one.getLocation())) {
      file = place.getFilename().str();
      c.file = file.c_str();
      c.line = place.getLine();
      c.column = place.getColumn();
    }
    callBack([&] { diagnosticCallback(&c, diagnosticUserData); });
  };
  pass(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    pass(note);
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

namespace {
/// Hands remarks to a callback.
class CallbackStreamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  CallbackStreamer(Context &context, TandemRemarkCallback callback,
                   void *userData)
      : context(context), callback(callback), userData(userData) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override;

private:
  Context &context;
  TandemRemarkCallback callback;
  void *userData;
};
} // namespace

static int32_t getKind(llvm::remarks::Type type) {
  switch (type) {
  case llvm::remarks::Type::Passed:
    return TANDEM_REMARK_PASSED;
  case llvm::remarks::Type::Missed:
    return TANDEM_REMARK_MISSED;
  case llvm::remarks::Type::Failure:
    return TANDEM_REMARK_FAILURE;
  default:
    return TANDEM_REMARK_ANALYSIS;
  }
}

void CallbackStreamer::streamOptimizationRemark(
    const remark::detail::Remark &remark) {
  std::string name = remark.getRemarkName().str();
  std::string category = remark.getCombinedCategoryName().str();
  std::string function = remark.getFunction().str();
  std::string location = mlir::tandem::getLocationText(remark.getLocation());
  llvm::SmallVector<const char *> keys, values;
  for (const remark::detail::Remark::Arg &arg : remark.getArgs()) {
    keys.push_back(arg.key.c_str());
    values.push_back(arg.val.c_str());
  }
  TandemRemark c = {sizeof(c),        getKind(remark.getRemarkType()),
                    name.c_str(),     category.c_str(),
                    function.c_str(), location.c_str(),
                    keys.size(),      keys.data(),
                    values.data()};
  context.callBack([&] { callback(&c, userData); });
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

TandemError tandemContextCreate(const TandemContextOptions *options,
                                TandemContext *context) {
  if (!context)
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "tandemContextCreate: no place for the context");
  *context = nullptr;
  TandemContextOptions given = TANDEM_CONTEXT_OPTIONS_INIT;
  if (TandemError error = readOptions(options, given, "TandemContextOptions"))
    return error;
  *context = addHandle<TandemContext>(std::make_shared<Context>(given));
  return nullptr;
}

void tandemContextDestroy(TandemContext context) { destroy(context); }

TandemError tandemContextSetDiagnosticCallback(
    TandemContext context, TandemDiagnosticCallback callback, void *userData) {
  auto object = find(context);
  if (!object)
    return makeInvalidHandle("context");
  return object->run(TANDEM_ERROR_INVALID_ARGUMENT, "", [&] {
    object->diagnosticCallback = callback;
    object->diagnosticUserData = userData;
    return success();
  });
}

TandemError tandemContextSetRemarkCallback(TandemContext context,
                                           const char *filter,
                                           TandemRemarkCallback callback,
                                           void *userData) {
  auto object = find(context);
  if (!object)
    return makeInvalidHandle("context");
  std::string regex = filter ? filter : "tandem-.*";
  std::string why;
  if (!llvm::Regex(regex).isValid(why))
    return makeError(TANDEM_ERROR_INVALID_ARGUMENT,
                     "the filter '" + regex +
                         "' is no regular expression: " + why);
  return object->run(
      TANDEM_ERROR_INVALID_ARGUMENT, "the remarks can't be turned on", [&] {
        if (!callback) {
          object->mlir.setRemarkEngine(nullptr);
          return success();
        }
        remark::RemarkCategories categories{regex, regex, regex, regex, regex};
        return remark::enableOptimizationRemarks(
            object->mlir,
            std::make_unique<CallbackStreamer>(*object, callback, userData),
            std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
      });
}
