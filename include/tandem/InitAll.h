//===- InitAll.h - What an embedder registers -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For a program that has dialects and passes of its own. Nothing is registered
// by constructors: a program that only links Tandem does not change.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_INITALL_H
#define TANDEM_INITALL_H

namespace mlir {
class DialectRegistry;

namespace tandem {

/// Registers the tandem dialect, its extensions of other dialects, and those of
/// MLIR's own dialects that the fuse pipeline writes. Does not register any
/// `onnx` dialect: a program that has none reads imported graphs with
/// `registerOnnxImportDialects` (tandem/Import/OnnxImport.h) or by allowing
/// unregistered dialects.
void registerTandemDialects(DialectRegistry &registry);

/// Registers the passes and pipelines of Tandem, and no others, with MLIR's
/// process-wide registry, for programs that take pipelines as text. Call it
/// from one thread; further calls do nothing.
void registerTandemPassesAndPipelinesOnce();

} // namespace tandem
} // namespace mlir

#endif // TANDEM_INITALL_H
