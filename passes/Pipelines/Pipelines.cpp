//===- Pipelines.cpp - Passes put together --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace mlir::tandem;

void mlir::tandem::buildFusePipeline(OpPassManager &pm,
                                     const TandemFuseOptions &options) {
  pm.addPass(createTandemRaise());
  pm.addPass(createTandemFuse(options));
  pm.addPass(createTandemRestore());
}

/// Parses what stands in braces behind the pipeline's name. They are the
/// options of `tandem-fuse`, so that pass reads them, and they are described in
/// one place only.
static LogicalResult
addFusePipeline(OpPassManager &pm, StringRef options,
                function_ref<LogicalResult(const Twine &)> errorHandler) {
  std::unique_ptr<Pass> fuse = createTandemFuse();
  if (failed(fuse->initializeOptions(options, errorHandler)))
    return failure();
  pm.addPass(createTandemRaise());
  pm.addPass(std::move(fuse));
  pm.addPass(createTandemRestore());
  return success();
}

void mlir::tandem::registerTandemPassesAndPipelines() {
  registerTandemPasses();
  registerPassPipeline(
      "tandem-fuse-pipeline",
      "raise, fuse and restore: from source ops to guarded fused ops; takes "
      "the options of tandem-fuse",
      addFusePipeline, [](function_ref<void(const detail::PassOptions &)>) {});
  PassPipelineRegistration<>("tandem-lower-pipeline",
                             "from fused graphs on tensors to the LLVM dialect "
                             "and calls of the runtime",
                             buildLowerPipeline);
}
