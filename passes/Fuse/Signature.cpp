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

/// `line` without its guard.
static std::string withoutGuard(StringRef line) {
  auto [front, back] = line.split(" guard=");
  return (front +
          (back.ends_with(" batch-invariant") ? " batch-invariant" : ""))
      .str();
}

/// What the file that the module came from says it was fused to, if that is
/// `lines` but for the guards. Of those a file with nodes of ai.tandem does not
/// say how the fusion described them.
static SmallVector<Attribute> getNotedLines(ModuleOp module,
                                            ArrayRef<Attribute> lines) {
  auto fields = module->getAttrOfType<DictionaryAttr>("tandem.onnx");
  auto metadata = fields ? fields.getAs<DictionaryAttr>("metadata_props")
                         : DictionaryAttr();
  auto text =
      metadata ? metadata.getAs<StringAttr>(signatureAttrName) : StringAttr();
  if (!text)
    return {};
  SmallVector<StringRef> noted;
  text.getValue().split(noted, '\n');
  if (noted.size() != lines.size())
    return {};
  SmallVector<Attribute> result;
  for (auto [line, other] : llvm::zip_equal(lines, noted)) {
    if (withoutGuard(cast<StringAttr>(line).getValue()) != withoutGuard(other))
      return {};
    result.push_back(StringAttr::get(module.getContext(), other));
  }
  return result;
}

void mlir::tandem::writeSignature(ModuleOp module) {
  Builder builder(module.getContext());
  SmallVector<Attribute> lines;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    // The other version of a function is what a fallback is of a chain.
    if (op->hasAttr(fallbackAttrName))
      return WalkResult::skip();
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
      return WalkResult::advance();
    }
    lines.push_back(builder.getStringAttr(line));
    return WalkResult::advance();
  });
  if (SmallVector<Attribute> noted = getNotedLines(module, lines);
      !noted.empty())
    lines = std::move(noted);
  module->setAttr(signatureAttrName, builder.getArrayAttr(lines));
}
