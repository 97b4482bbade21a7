//===- Restore.h - From raised ops back to source ops --------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_RESTORE_H
#define TANDEM_PASSES_RESTORE_H

#include "mlir/IR/Operation.h"

namespace mlir::tandem {

/// Replaces each raised op in `root`'s regions by its source ops: where they
/// stood, if the block still is as raising left it, else at the place of the
/// raised op. An all-reduce marked as a fallback stays. Returns whether
/// anything changed.
bool restoreSourceOps(Operation *root);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_RESTORE_H
