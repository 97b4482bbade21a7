//===- MergeAllReduces.h - One all-reduce instead of two ------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_MERGEALLREDUCES_H
#define TANDEM_PASSES_FUSE_MERGEALLREDUCES_H

#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::tandem {

struct MergedAllReduces {
  /// The places of the all-reduces that each new one stands for.
  llvm::DenseMap<Operation *, SmallVector<Location, 2>> locations;
  /// Why others that are added before a norm could not be made one.
  llvm::DenseMap<Operation *, std::string> obstacles;
};

/// Turns `all_reduce(a) + all_reduce(b)` below `root` into
/// `all_reduce(a + b)`, where both reduce over one group, nothing else reads
/// them, and a chain can start at the sum. Mathematically equal; rounded at
/// other places.
MergedAllReduces mergeAllReduces(RewriterBase &rewriter, Operation *root);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_MERGEALLREDUCES_H
