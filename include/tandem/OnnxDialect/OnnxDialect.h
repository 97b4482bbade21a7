//===- OnnxDialect.h - A thin onnx dialect ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ONNXDIALECT_ONNXDIALECT_H
#define TANDEM_ONNXDIALECT_ONNXDIALECT_H

#include "mlir/IR/Dialect.h"

namespace mlir::tandem {

/// An `onnx` dialect that defines no op and no type and takes every
/// `onnx.<OpType>` and `!onnx.<Type>` as it is written, so that our tools read
/// and print imported graphs without `--allow-unregistered-dialect`. Nothing
/// is known about such an op: no pass folds, moves or deletes it.
///
/// For tools only. The plugin and the passes never load it: a host that has
/// an `onnx` dialect of its own would abort at a second registration.
class OnnxDialect : public Dialect {
public:
  explicit OnnxDialect(MLIRContext *context);

  static constexpr StringLiteral getDialectNamespace() { return "onnx"; }
};

} // namespace mlir::tandem

MLIR_DECLARE_EXPLICIT_TYPE_ID(mlir::tandem::OnnxDialect)

#endif // TANDEM_ONNXDIALECT_ONNXDIALECT_H
