//===- OptionText.h - Checks the text of options -------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_OPTIONTEXT_H
#define TANDEM_PASSES_FUSE_OPTIONTEXT_H

#include "mlir/Support/LLVM.h"

namespace mlir::tandem {

/// Checks options of `tandem-fuse`, as they stand in a pipeline's text, and
/// tells the first that is no good to `errorHandler`. MLIR's own parser says
/// less, to standard error, and in several messages.
LogicalResult
checkFuseOptionText(StringRef options,
                    function_ref<LogicalResult(const Twine &)> errorHandler);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_OPTIONTEXT_H
