//===- RoundTrip.h - Check that IR survives printing and parsing *- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_ROUNDTRIP_H
#define TANDEM_TOOLS_FUSIONOPT_ROUNDTRIP_H

#include "mlir/Support/LLVM.h"

#include <memory>

namespace mlir {
class DialectRegistry;
class Operation;
class Pass;

namespace tandem {

/// Writes `op` as text, as generic text and as bytecode, reads each back in a
/// context of its own made from `registry`, and compares. Emits an error at
/// `op` for the first form that does not come back the same.
LogicalResult verifyRoundTrip(Operation *op, const DialectRegistry &registry);

/// A pass that does the same with the op that it runs on. `registry` must
/// outlive it.
std::unique_ptr<Pass>
createVerifyRoundTripPass(const DialectRegistry &registry);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_TOOLS_FUSIONOPT_ROUNDTRIP_H
