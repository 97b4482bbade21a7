//===- Compile.h - From modules to shared objects ------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILE_COMPILE_H
#define TANDEM_COMPILE_COMPILE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::tandem {

/// How to compile.
struct CompileOptions {
  /// Target triple; empty: this host's.
  std::string triple;
  /// Processor and features as LLVM names them; "native": this host's. Empty:
  /// any of the architecture.
  std::string cpu, features;
  /// The program that assembles and links, a C compiler's driver.
  std::string linker = "cc";
  /// Folder of external data; empty: the model's own.
  std::string externalDataDir;
  /// Constants of at least this many bytes don't go through LLVM but are copied
  /// into the object as they are.
  uint64_t minDataBytes = 1024;
};

/// Registers what compiling needs beyond registerToolDialects.
void registerCompileDialects(DialectRegistry &registry);

/// Lowers `module` (tensors; what tandem-fuse writes, with the ONNX ops that
/// tandem-onnx-to-linalg takes) and writes a shared object to `output` and a C
/// header beside it: `output` with .h for its extension. docs/run.md says what
/// the object needs and offers. Both files appear whole or not at all. Errors
/// go to the context's diagnostic handlers. `name` is what the header calls the
/// source.
LogicalResult compileToSharedObject(ModuleOp module, StringRef output,
                                    StringRef name,
                                    const CompileOptions &options);

} // namespace mlir::tandem

#endif // TANDEM_COMPILE_COMPILE_H
