//===- Rewrite.h - Making raised ops from matches ------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RAISE_REWRITE_H
#define TANDEM_PASSES_RAISE_REWRITE_H

#include "tandem/Passes/Raise.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::tandem {

/// Puts raised ops in the place of their sources. One object serves all
/// matches that were made on the same IR: it knows what became of the values
/// that a later match still names as they were.
class SourceRewriter {
public:
  explicit SourceRewriter(RewriterBase &rewriter) : rewriter(rewriter) {}

  /// Says where the source ops stood: `positions` maps ops to their index in
  /// their block. Without it raised ops don't record positions.
  void setPositions(const llvm::DenseMap<Operation *, int64_t> *map) {
    positions = map;
  }

  void raise(AllReduceMatch &match);
  void raise(AddMatch &match);
  void raise(RMSNormMatch &match);

private:
  /// The tensor that a source value is now.
  Value getTensor(Value source);
  /// gamma as [H].
  Value getVector(Value source);
  /// The sum that a norm is of, for a source op that adds first.
  Value makeSum(RMSNormMatch &match, Location loc);
  /// A sum that may broadcast, which tandem.add does not do, in the spelling
  /// of the source op `like` and with the type of `lhs`.
  Value makeSourceAdd(Operation *like, Value lhs, Value rhsSource,
                      Location loc);
  /// Moves the sources into `op` and hands their uses to `value`.
  void finish(Operation *op, SourceMatch &match,
              ArrayRef<std::pair<Value, Value>> replacements);
  void replaceUses(Value source, Value tensor);
  Location begin(SourceMatch &match);

  RewriterBase &rewriter;
  const llvm::DenseMap<Operation *, int64_t> *positions = nullptr;
  llvm::DenseMap<Value, Value> tensors;
};

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RAISE_REWRITE_H
