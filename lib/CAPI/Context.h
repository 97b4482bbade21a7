//===- Context.h - A context of the C interface -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_CONTEXT_H
#define TANDEM_LIB_CAPI_CONTEXT_H

#include "Handles.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <mutex>
#include <optional>

namespace mlir::tandem::capi {

struct Context {
  explicit Context(const TandemContextOptions &options);

  /// Runs `action` with the context to itself, and hands its diagnostics on. If
  /// it fails, the error has `code` and what was diagnosed, or `otherwise`.
  TandemError run(TandemErrorCode code, const char *otherwise,
                  llvm::function_ref<LogicalResult()> action);

  /// Calls a callback of the user's, during which calls into this context are
  /// refused on this thread.
  void callBack(llvm::function_ref<void()> callback);

  void handleDiagnostic(Diagnostic &diagnostic);

  std::mutex mutex;
  MLIRContext mlir;
  TandemDiagnosticCallback diagnosticCallback = nullptr;
  void *diagnosticUserData = nullptr;
  /// Of the call that is running.
  std::string errors;
  std::optional<std::string> report;

  /// Whether this thread is in a callback of this context.
  bool isInCallback() const;
};

struct Module {
  Module(std::shared_ptr<Context> context, OwningOpRef<ModuleOp> op)
      : context(std::move(context)), op(std::move(op)) {}
  ~Module();

  std::shared_ptr<Context> context;
  OwningOpRef<ModuleOp> op;
};

} // namespace mlir::tandem::capi

#endif // TANDEM_LIB_CAPI_CONTEXT_H
