//===- Help.h - The help of fusion-opt --------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_HELP_H
#define TANDEM_TOOLS_FUSIONOPT_HELP_H

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace mlir::tandem {

/// Prints what a newcomer needs: the kinds of input, examples, our passes and
/// the flags used most. The passes must be registered. All of MLIR's passes
/// and flags are under --help-hidden.
void printHelp(llvm::raw_ostream &os);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_FUSIONOPT_HELP_H
