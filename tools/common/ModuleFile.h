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

#include <memory>
#include <string>

namespace llvm {
class MemoryBuffer;
class SourceMgr;
} // namespace llvm

namespace mlir::tandem {

/// The file at `path`, text or bytecode, aligned as its resources may need it.
/// "-" is standard input. On failure null, and `error` says why, naming the
/// path.
std::unique_ptr<llvm::MemoryBuffer> openModuleFile(StringRef path,
                                                   std::string &error);

/// Makes it the main buffer of `sources`.
LogicalResult openModuleFile(StringRef path, llvm::SourceMgr &sources,
                             std::string &error);

/// Warns on standard error, as `tool`, where the name of the output asks for
/// something other than the text or bytecode that it gets. `others` ends the
/// sentence: how to get what else there is.
void warnOfOutputFormat(StringRef tool, StringRef path, bool emitsBytecode,
                        StringRef others);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_MODULEFILE_H
