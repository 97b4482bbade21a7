//===- Signature.h - What ranks compare ----------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_SIGNATURE_H
#define TANDEM_PASSES_FUSE_SIGNATURE_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// Name of the module attribute that holds the signature.
inline constexpr StringRef signatureAttrName = "tandem.signature";

/// Writes the module's signature: one line for each fused op and each
/// all-reduce that did not fuse, in order, with what all ranks must agree on.
/// Ranks compile apart; making a workspace compares their signatures, so that
/// a difference is an error with a name instead of a hang.
void writeSignature(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_SIGNATURE_H
