//===- TandemDialect.cpp - The tandem dialect ----------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"

#include "TandemBytecode.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::tandem;

#include "tandem/Dialect/TandemDialect.cpp.inc"

void TandemDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/TandemOps.cpp.inc"
      >();
  addBytecodeInterface(this);
}
