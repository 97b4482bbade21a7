//===- Describe.cpp - What callers need to know ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "Describe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMDESCRIBE
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

namespace {
class DescribePass : public tandem::impl::TandemDescribeBase<DescribePass> {
  void runOnOperation() override;
};
} // namespace

void DescribePass::runOnOperation() {
  ModuleOp module = getOperation();
  OpPassManager cleanup(func::FuncOp::getOperationName());
  cleanup.addPass(createCanonicalizerPass());
  cleanup.addPass(createCSEPass());
  auto simplify = [&](func::FuncOp function) {
    return runPipeline(cleanup, function);
  };
  Builder builder(&getContext());
  // Others call what has the C interface. The function under it may have a name
  // that means something else to them, as `main` does.
  auto internal =
      LLVM::LinkageAttr::get(&getContext(), LLVM::Linkage::Internal);
  auto exportInterface = [&](func::FuncOp function) {
    function->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                      builder.getUnitAttr());
    function->setAttr("llvm.linkage", internal);
  };
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal() &&
        !function->hasAttr(shapeFunctionAttrName))
      functions.push_back(function);
  for (func::FuncOp function : functions) {
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (!isa<RankedTensorType>(type)) {
        function.emitOpError("result #")
            << i << " has type " << type
            << "; only tensors with a rank can be results of a public function";
        return signalPassFailure();
      }
    exportInterface(function);
    if (function.getNumResults() != 0 &&
        failed(createShapeFunction(function, simplify)))
      return signalPassFailure();
  }
  module->setAttr(moduleInfoAttrName,
                  builder.getStringAttr(describeModule(module)));
  for (func::FuncOp function : functions)
    function->removeAttr(noSizesAttrName);
}
