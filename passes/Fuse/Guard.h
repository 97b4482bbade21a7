//===- Guard.h - The check of the token count at run time ----- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_GUARD_H
#define TANDEM_PASSES_FUSE_GUARD_H

#include "Chain.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::tandem {

/// What bounds a chain's token count, besides the runtime.
struct LimitKey {
  GroupAttr group;
  int64_t hidden;
  Type elementType;
  /// The limit given by options, if any.
  std::optional<int64_t> given;
};

/// Builds the checks of one module, each as few times as possible: a limit is
/// asked once a function, and a comparison that has been made and dominates is
/// used again.
class GuardBuilder {
public:
  /// Returns an i1 that is true if 0 < tokens <= limit. `tokens` gives the
  /// dims to multiply, as values of index type made on demand by `getDim` at
  /// the builder's insertion point; `tokensKey` is equal for counts that are
  /// equal.
  Value getTokensInRange(OpBuilder &builder, Location loc, const LimitKey &key,
                         StringRef tokensKey,
                         function_ref<Value(OpBuilder &)> getTokens);

  /// `dims` multiplied, as i64. The product can't overflow: a tensor that has
  /// it as the number of its rows is in memory.
  static Value multiplyDims(OpBuilder &builder, Location loc,
                            ArrayRef<OpFoldResult> dims);

private:
  Value getLimit(OpBuilder &builder, Location loc, const LimitKey &key);

  /// Where constants and limits of an isolated region go.
  struct EntryPoint {
    Operation *last = nullptr; ///< last op put there
    llvm::StringMap<Value> values;
  };
  llvm::DenseMap<Region *, EntryPoint> entries;
  llvm::StringMap<SmallVector<Value, 1>> checks;
};

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_GUARD_H
