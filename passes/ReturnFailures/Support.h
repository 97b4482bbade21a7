//===- Support.h - What compiled modules bring along ---------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RETURNFAILURES_SUPPORT_H
#define TANDEM_PASSES_RETURNFAILURES_SUPPORT_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// A pointer for each thread: what the last failure said, or null.
inline constexpr StringRef messageSymbolName = "tandem_module_message";

/// `void()`: frees all buffers that this thread's call has.
inline constexpr StringRef releaseSymbolName = "tandem_module_release";

/// Of the runtime: fails the group of a workspace.
inline constexpr StringRef failGroupSymbolName = "tandem_workspace_fail";

/// Adds the functions and variables of this file, an allocator for conversion
/// with generic functions that knows which buffers there are, and
/// `tandem_module_last_message`, which callers see. An error where a name is
/// taken.
LogicalResult addSupport(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RETURNFAILURES_SUPPORT_H
