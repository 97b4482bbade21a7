//===- InitAll.cpp - What an embedder registers ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Passes.h"

using namespace mlir;

void mlir::tandem::registerTandemDialects(DialectRegistry &registry) {
  // A plugin may meet a host that has Tandem built in; MLIR aborts when a
  // second copy of a dialect comes along.
  if (!registry.getDialectAllocator(TandemDialect::getDialectNamespace()))
    registry.insert<TandemDialect>();
}

void mlir::tandem::registerTandemPassesAndPipelinesOnce() {
  // The same with passes, which the registry tells apart by their arguments.
  if (!PassInfo::lookup("tandem-fuse"))
    registerTandemPassesAndPipelines();
}
