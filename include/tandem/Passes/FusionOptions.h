//===- FusionOptions.h - Kinds of guard and requirement ------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSIONOPTIONS_H
#define TANDEM_PASSES_FUSIONOPTIONS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tandem {

/// Where a fused chain's token count is checked.
enum class GuardKind {
  Chain,    ///< at each chain, by an scf.if
  Function, ///< once for a whole function, which is versioned
  None      ///< nowhere; the runtime falls back by itself
};

/// What makes `tandem-fuse` fail.
enum class RequireKind {
  Nothing, ///< a missed fusion is only reported
  All      ///< any all-reduce that did not fuse
};

/// Whether `tandem-fuse` has an option of this name, for tools that want to
/// say where it goes.
bool isFuseOption(llvm::StringRef name);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSIONOPTIONS_H
