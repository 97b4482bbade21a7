//===- fusion-reduce.cpp - The test case reducer --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-reduce with Tandem's dialect and passes.
//
//===----------------------------------------------------------------------===//

#include "../common/Version.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tandem/Registration/Registration.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// MLIR's reducer aborts where a script can't be run. True if all that are
/// named can be.
static bool checkScripts(ArrayRef<char *> arguments) {
  for (StringRef argument : arguments) {
    argument = argument.ltrim('-');
    if (!argument.starts_with("reduction-tree") &&
        !argument.starts_with("opt-reduction-pass"))
      continue;
    SmallVector<StringRef> words;
    StringRef(argument.split('=').second).split(words, ' ');
    for (StringRef word : words) {
      word = word.trim("{}");
      // What is quoted may go on in the next word; then MLIR tells.
      if (!word.consume_front("test=") ||
          (word.find_first_of("\"'") == 0 && word.back() != word.front()))
        continue;
      StringRef script = word.trim("\"'");
      if (llvm::sys::fs::can_execute(script))
        continue;
      llvm::errs() << "fusion-reduce: error: the script '" << script << "' "
                   << (llvm::sys::fs::exists(script)
                           ? "is no file that can be executed"
                           : "is not there; it is named by its path, not "
                             "looked up in the PATH")
                   << '\n';
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  if (!checkScripts(ArrayRef(argv, argc).drop_front()))
    return 1;
  llvm::cl::SetVersionPrinter(mlir::tandem::printVersion);
  mlir::DialectRegistry registry;
  mlir::tandem::registerToolDialects(registry);
  mlir::tandem::registerToolPasses();
  mlir::MLIRContext context(registry);
  return failed(mlir::mlirReduceMain(argc, argv, context));
}
