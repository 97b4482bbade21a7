//===- acme.cpp - A program that teaches Tandem about ops of its own ------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/InitAll.h"
#include "tandem/Passes/Passes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

#include "AcmeDialect.h.inc"
#define GET_OP_CLASSES
#include "Acme.h.inc"

#include "AcmeDialect.cpp.inc"
#define GET_OP_CLASSES
#include "Acme.cpp.inc"

void acme::AcmeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Acme.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// The norm: an op that implements the interface
//===----------------------------------------------------------------------===//

OpOperand &acme::RowScaleOp::getNormOperand() { return getRowsMutable(); }
Value acme::RowScaleOp::getNormGamma() { return getWeight(); }
Value acme::RowScaleOp::getNormResult() { return getScaled(); }
FloatAttr acme::RowScaleOp::getNormEpsilon() { return getFloorAttr(); }
tandem::NormRounding acme::RowScaleOp::getNormRounding() {
  return tandem::NormRounding::BeforeGamma;
}

//===----------------------------------------------------------------------===//
// The all-reduce: an interface attached from outside
//===----------------------------------------------------------------------===//

namespace {
struct ExchangeModel
    : tandem::AllReduceOpInterface::ExternalModel<ExchangeModel,
                                                  acme::ExchangeOp> {
  OpOperand &getReducedOperand(Operation *op) const {
    return cast<acme::ExchangeOp>(op).getPartialMutable();
  }
  Value getReducedResult(Operation *op) const {
    return cast<acme::ExchangeOp>(op).getTotal();
  }
  tandem::ReductionKind getReductionKind(Operation *) const {
    return tandem::ReductionKind::Sum;
  }
  tandem::GroupAttr getReductionGroup(Operation *op) const {
    return tandem::GroupAttr::get(op->getContext(), "acme", /*size=*/2, {});
  }
  bool isFusionFallback(Operation *op) const {
    return cast<acme::ExchangeOp>(op).getPlain();
  }
  void markFusionFallback(Operation *op, bool /*batchInvariant*/) const {
    cast<acme::ExchangeOp>(op).setPlain(true);
  }
};
} // namespace

static constexpr const char source[] = R"mlir(
func.func @layer(%x: tensor<4x?x8xf32>, %g: tensor<8xf32>) -> tensor<4x?x8xf32> {
  %total = acme.exchange %x : tensor<4x?x8xf32> -> tensor<4x?x8xf32>
  %y = acme.row_scale %total, %g {floor = 1.0e-6 : f64}
      : tensor<4x?x8xf32>, tensor<8xf32> -> tensor<4x?x8xf32>
  return %y : tensor<4x?x8xf32>
}
)mlir";

int main() {
  DialectRegistry registry;
  tandem::registerTandemDialects(registry);
  registry.insert<acme::AcmeDialect>();
  registry.addExtension(+[](MLIRContext *context, acme::AcmeDialect *) {
    acme::ExchangeOp::attachInterface<ExchangeModel>(*context);
  });
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  if (!module)
    return 1;

  tandem::TandemFuseOptions options;
  options.maxTokens = 1024;
  options.require = tandem::RequireKind::All;
  PassManager pm(&context);
  tandem::buildFusePipeline(pm, options);
  // The second run must find nothing more to do.
  tandem::buildFusePipeline(pm, options);
  if (failed(pm.run(*module)))
    return 1;
  module->print(llvm::outs());
  llvm::outs() << '\n';
  return 0;
}
