//===- Signature.h - What ranks compare ----------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUSE_SIGNATURE_H
#define TANDEM_PASSES_FUSE_SIGNATURE_H

#include "tandem/Passes/Fuse.h"

namespace mlir::tandem {

/// Name of the module attribute that holds the signature.
inline constexpr StringRef signatureAttrName = "tandem.signature";

} // namespace mlir::tandem

#endif // TANDEM_PASSES_FUSE_SIGNATURE_H
