//===- parent.cpp - A source that needs generated headers -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

void addFusion(mlir::OpPassManager &pm) {
  mlir::tandem::buildFusePipeline(pm, {});
}
