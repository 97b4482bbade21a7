//===- Passes.h - The passes ---------------------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_PASSES_H
#define TANDEM_PASSES_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Passes/FusionOptions.h"

namespace mlir::tandem {

#define GEN_PASS_DECL
#include "tandem/Passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tandem/Passes/Passes.h.inc"

/// Appends raise, fuse and restore, the whole way from source ops to guarded
/// fused ops.
void buildFusePipeline(OpPassManager &pm, const TandemFuseOptions &options);

/// Appends all the passes from tensors down to the LLVM dialect, as
/// docs/lowering.md describes them.
void buildLowerPipeline(OpPassManager &pm);

/// Registers the passes of this project and its pipelines with MLIR's global
/// registry, under the names that the command line uses.
void registerTandemPassesAndPipelines();

} // namespace mlir::tandem

#endif // TANDEM_PASSES_PASSES_H
