//===- OnnxDialect.cpp - A thin onnx dialect ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxDialect/OnnxDialect.h"

using namespace mlir;
using namespace mlir::tandem;

MLIR_DEFINE_EXPLICIT_TYPE_ID(mlir::tandem::OnnxDialect)

OnnxDialect::OnnxDialect(MLIRContext *context)
    : Dialect(getDialectNamespace(), context, TypeID::get<OnnxDialect>()) {
  allowUnknownOperations();
  allowUnknownTypes();
}
