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
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace mlir::tandem;

#include "tandem/Dialect/TandemDialect.cpp.inc"

namespace {
/// A call executes the collectives of its callee where it stands, so inlining
/// changes neither their number nor their order.
struct TandemInlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  /// A source region is not executed; what is in it is no obstacle.
  bool shouldAnalyzeRecursively(Operation *) const final { return false; }
};
} // namespace

void TandemDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/TandemOps.cpp.inc"
      >();
  addInterfaces<TandemInlinerInterface>();
  addBytecodeInterface(this);
}
