//===- Signature.cpp - What ranks compare ---------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Signature.h"

#include "FusedOps.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tandem;

/// "?x?x4096xbf16": sizes that may differ from call to call are left open.
static void printShape(llvm::raw_ostream &os, Type type) {
  auto shaped = dyn_cast<RankedTensorType>(type);
  if (!shaped) {
    os << type;
    return;
  }
  for (int64_t dim : shaped.getShape()) {
    if (ShapedType::isDynamic(dim))
      os << '?';
    else
      os << dim;
    os << 'x';
  }
  os << shaped.getElementType();
}

void mlir::tandem::writeSignature(ModuleOp module) {
  Builder builder(module.getContext());
  SmallVector<Attribute> lines;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::string line;
    llvm::raw_string_ostream os(line);
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op)) {
      os << getPatternName(fused) << " group=" << fused.getGroup().getName()
         << " type=";
      printShape(os, fused.getInput().getType());
      os << " guard=" << getGuardText(fused);
      if (fused.getBatchInvariant())
        os << " batch-invariant";
    } else if (auto allReduce = dyn_cast<AllReduceOpInterface>(op);
               allReduce && !allReduce.isFusionFallback()) {
      os << "all_reduce_"
         << stringifyReductionKind(allReduce.getReductionKind())
         << " group=" << allReduce.getReductionGroup().getName() << " type=";
      printShape(os, allReduce.getReducedResult().getType());
    } else {
      return;
    }
    lines.push_back(builder.getStringAttr(line));
  });
  module->setAttr(signatureAttrName, builder.getArrayAttr(lines));
}
