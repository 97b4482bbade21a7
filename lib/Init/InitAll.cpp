//===- InitAll.cpp - What an embedder registers ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAll.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Dialect/TandemBufferization.h"
#include "tandem/Dialect/TandemToLLVM.h"
#include "tandem/Passes/Passes.h"

using namespace mlir;

// What is registered here, interfaces and extensions of other dialects as well,
// is what the plugin, embedders, the C library and the tools have.
void mlir::tandem::registerTandemDialects(DialectRegistry &registry) {
  // Passes bring these along where they make such ops; a registry needs them
  // too, or the result can't be read back.
  registry.insert<arith::ArithDialect, func::FuncDialect, scf::SCFDialect,
                  tensor::TensorDialect>();
  // A plugin may meet a host that has Tandem built in; MLIR aborts when a
  // second copy of a dialect comes along.
  if (registry.getDialectAllocator(TandemDialect::getDialectNamespace()))
    return;
  registry.insert<TandemDialect>();
  registerTandemBufferizationModels(registry);
  registerConvertTandemToLLVMInterface(registry);
}

void mlir::tandem::registerTandemPassesAndPipelinesOnce() {
  // The same with passes, which the registry tells apart by their arguments.
  if (!PassInfo::lookup("tandem-fuse"))
    registerTandemPassesAndPipelines();
}
