//===- Lowering.h - What the lowering passes agree on ---------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_LOWERING_H
#define TANDEM_PASSES_LOWERING_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// Attribute of an argument that is a workspace: its #tandem.group.
inline constexpr StringRef groupArgAttrName = "tandem.group";

/// Unit attribute of a function that computes the sizes of another's results.
inline constexpr StringRef shapeFunctionAttrName = "tandem.shape_function";

/// Attribute of a function whose results' sizes can't be computed: why.
inline constexpr StringRef noSizesAttrName = "tandem.no_sizes";

/// Attribute of an argument that is where a result goes: the result's number.
inline constexpr StringRef resultArgAttrName = "tandem.result";

/// Unit attribute of a function whose last result is its status, and of a call
/// of the runtime whose result is one.
inline constexpr StringRef statusAttrName = "tandem.status";

/// Attribute of the module: what its functions take and need, as JSON.
inline constexpr StringRef moduleInfoAttrName = "tandem.module_info";

/// The global that holds the same in the LLVM dialect.
inline constexpr StringRef moduleInfoSymbolName = "tandem_module_info";

/// Drops the source regions of raised ops. Once a graph is lowered, nothing
/// goes back to the source.
void dropSources(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_LOWERING_H
