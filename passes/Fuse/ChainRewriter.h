//===- ChainRewriter.h - From a chain to the fused op --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_CHAINREWRITER_H
#define TANDEM_PASSES_FUSE_CHAINREWRITER_H

#include "Chain.h"
#include "Guard.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tandem {

/// How a chain is rewritten.
struct RewriteOptions {
  /// Whether a check goes before the fused op.
  bool guarded = true;
  /// What reports say of the check, empty where there is none.
  std::string guardText;
  bool batchInvariant = false;
  /// The limit given by options, if any.
  std::optional<int64_t> limit;
};

/// Replaces `chain` by the fused op, in the first branch of an `scf.if` if
/// guarded, the other branch of which holds the chain's own ops.
/// Ops outside of the chain that it read are added to `orphans`: they may be
/// dead now, and can be erased once no other chain is known by its ops.
void rewriteChain(RewriterBase &rewriter, Chain &chain, GuardBuilder &guards,
                  const RewriteOptions &options,
                  llvm::SetVector<Operation *> &orphans);

/// Drops what a raised op remembers of its source, since the op now stands for
/// itself.
void dropSource(Operation *op);

/// The key that equal token counts share; unique to the chain if the count is
/// not known.
std::string getTokensKey(const Chain &chain);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_CHAINREWRITER_H
