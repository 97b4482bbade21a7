//===- Registration.h - What our tools know ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REGISTRATION_REGISTRATION_H
#define TANDEM_REGISTRATION_REGISTRATION_H

namespace mlir {
class DialectRegistry;

namespace tandem {

/// Registers what a tool of ours reads: MLIR's own dialects and extensions,
/// the tandem dialect, and the thin onnx dialect.
void registerToolDialects(DialectRegistry &registry);

/// Registers MLIR's own passes and ours with the global pass registry. Call it
/// once a process.
void registerToolPasses();

} // namespace tandem
} // namespace mlir

#endif // TANDEM_REGISTRATION_REGISTRATION_H
