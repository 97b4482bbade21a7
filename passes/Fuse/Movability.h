//===- Movability.h - Which ops a collective may pass --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_MOVABILITY_H
#define TANDEM_PASSES_FUSE_MOVABILITY_H

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tandem {

/// True if `op`, with all that it holds, may change places with a collective:
/// it is free of memory effects, or it is one of the deterministic ai.onnx ops
/// of the table in docs/fuse.md. Ops that are not known may not.
bool mayPassCollective(Operation *op);

/// Erases every op in `worklist` that has no uses and no effects, and then
/// whatever becomes unused by that. Empties the list.
void eraseIfDead(RewriterBase &rewriter,
                 llvm::SetVector<Operation *> &worklist);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_MOVABILITY_H
