//===- consumer.cpp - A program that uses installed Tandem ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem.h"
#include "tandem/Import/OnnxImport.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// Fuses the model given as the argument and prints the counts.
int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  MLIRContext context;
  OwningOpRef<ModuleOp> module = tandem::importOnnxFile(argv[1], &context);
  if (!module)
    return 1;
  context.getOrLoadDialect<tandem::TandemDialect>()->setFusionReportHandler(
      [](const tandem::FusionReport &report) {
        llvm::outs() << "fused " << report.getNumFused() << " of "
                     << report.sites.size() << '\n';
      });
  PassManager pm(&context);
  tandem::buildFusePipeline(pm, {});
  return failed(pm.run(*module));
}
