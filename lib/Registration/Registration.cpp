//===- Registration.cpp - What our tools know -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Registration/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/InitAll.h"
#include "tandem/OnnxDialect/OnnxDialect.h"
#include "tandem/Passes/Passes.h"

using namespace mlir;

// Registering all of MLIR costs a process 3 ms and loads nothing: a dialect is
// loaded when an op of it is met. It lets people write any pipeline.

void mlir::tandem::registerToolDialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerTandemDialects(registry);
  registry.insert<OnnxDialect>();
}

void mlir::tandem::registerToolPasses() {
  registerAllPasses();
  registerTandemPassesAndPipelines();
  registerTandemConversionPasses();
}
