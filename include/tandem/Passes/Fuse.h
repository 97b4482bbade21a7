//===- Fuse.h - Fusion outside of its pass -------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_H
#define TANDEM_PASSES_FUSE_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Passes/Passes.h"
#include "llvm/Support/Error.h"

namespace mlir::tandem {

/// Adds the pattern that fuses one chain, for the greedy driver of an embedder.
/// It begins at an all-reduce and changes ops around it: no driver that walks
/// blocks may use it. What ends a search without a chain is told as a match
/// failure, by its name in docs/reasons.md.
///
/// The pass does more. Each chain gets a check of its own here, so CSE should
/// follow; the signature that ranks compare is for `writeSignature`; and the
/// source ops of what did not fuse are for `restoreSourceOps`. Options that are
/// about a function or a module as a whole (guard=function,
/// merge-all-reduces, report, require=all) are an error, as are values that the
/// pass would refuse.
llvm::Error populateFusePatterns(RewritePatternSet &patterns,
                                 const TandemFuseOptions &options);

/// Writes the module's signature, `tandem.signature`: one line for each fused
/// op and each all-reduce that did not fuse, in order, with what all ranks must
/// agree on. Ranks compile apart; making a workspace compares their signatures,
/// so that a difference is an error with a name instead of a hang.
void writeSignature(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_H
