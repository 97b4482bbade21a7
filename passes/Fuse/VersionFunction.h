//===- VersionFunction.h - One check for a whole function ----- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_VERSIONFUNCTION_H
#define TANDEM_PASSES_FUSE_VERSIONFUNCTION_H

#include "Chain.h"
#include "Guard.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::tandem {

/// A chain's limit, beside it.
struct GuardedChain {
  Chain *chain;
  LimitKey limit;
};

/// If the token counts of all `chains` of `function` follow from the shapes of
/// its arguments, turns it into a check that calls one of two private
/// functions: the one that now holds the chains, to be rewritten without
/// checks, and a copy of the original, its all-reduces marked as the other
/// branch. Returns whether that was done; nothing is changed otherwise.
bool versionFunction(RewriterBase &rewriter, func::FuncOp function,
                     ArrayRef<GuardedChain> chains, ShapeAnalysis &shapes,
                     GuardBuilder &guards, bool batchInvariant);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_VERSIONFUNCTION_H
