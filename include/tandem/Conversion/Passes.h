//===- Passes.h - Conversions from other dialects ------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PASSES_H
#define TANDEM_CONVERSION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tandem {

#define GEN_PASS_DECL
#include "tandem/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tandem/Conversion/Passes.h.inc"

} // namespace mlir::tandem

#endif // TANDEM_CONVERSION_PASSES_H
