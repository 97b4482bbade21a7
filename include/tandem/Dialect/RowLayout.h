//===- RowLayout.h - How a buffer's rows lie in memory --------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_ROWLAYOUT_H
#define TANDEM_DIALECT_ROWLAYOUT_H

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace mlir::tandem {

/// How far a buffer's rows, of its last dimension, are apart.
struct RowLayout {
  /// The dim whose stride that is; none where each row follows the last one, or
  /// where there is just one.
  std::optional<unsigned> strideDim;
};

/// Returns the layout of rows that are contiguous and evenly spaced, as the
/// runtime takes them; failure where `type` does not say that they are.
FailureOr<RowLayout> getRowLayout(MemRefType type);

} // namespace mlir::tandem

#endif // TANDEM_DIALECT_ROWLAYOUT_H
