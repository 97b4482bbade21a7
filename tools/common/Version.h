//===- Version.h - What a tool's --version prints ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_VERSION_H
#define TANDEM_TOOLS_COMMON_VERSION_H

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::tandem {

/// For llvm::cl::SetVersionPrinter, too. The name and the version come from
/// tandem_add_tool.
inline void printVersion(llvm::raw_ostream &os) {
  os << TANDEM_TOOL_NAME " (Tandem) " TANDEM_VERSION "\n"
     << "MLIR " LLVM_VERSION_STRING "\n";
}

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_VERSION_H
