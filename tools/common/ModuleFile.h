//===- ModuleFile.h - Files of MLIR text or bytecode ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_MODULEFILE_H
#define TANDEM_TOOLS_COMMON_MODULEFILE_H

#include "mlir/Support/LLVM.h"

#include <string>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir::tandem {

/// Makes the file at `path`, text or bytecode, the main buffer of `sources`,
/// aligned as its resources may need it. "-" is standard input. On failure
/// `error` says why, naming the path.
LogicalResult openModuleFile(StringRef path, llvm::SourceMgr &sources,
                             std::string &error);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_MODULEFILE_H
