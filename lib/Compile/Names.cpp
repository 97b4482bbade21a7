//===- Names.cpp - Names of functions -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace mlir::tandem;

static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult mlir::tandem::compile::checkNames(ModuleOp module) {
  llvm::TargetLibraryInfoImpl library{
      llvm::Triple(llvm::sys::getDefaultTargetTriple())};
  auto isReserved = [&](StringRef name) {
    llvm::LibFunc ignored;
    return name.starts_with("tandem_") || name.starts_with("_mlir_") ||
           name.starts_with("llvm.") || name == "abort" ||
           library.getLibFunc(name, ignored);
  };
  SymbolTable symbols(module);
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions) {
    StringRef name = function.getName();
    if (function.isExternal())
      return function.emitError("function '")
             << name << "' has no body; what is compiled must be whole";
    if (function.isPublic() && !isIdentifier(name))
      return function.emitError("function '")
             << name
             << "' has a name that C can't spell; use letters, digits and '_'";
    if (!isReserved(name))
      continue;
    if (function.isPublic())
      return function.emitError("function '")
             << name
             << "' has a name of the C library's or of Tandem's; use another";
    std::string other;
    unsigned number = 0;
    do
      other = ("private_" + name + "_" + Twine(number++)).str();
    while (symbols.lookup(other));
    if (failed(symbols.rename(function, other)))
      return failure();
  }
  return success();
}
