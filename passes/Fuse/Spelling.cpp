//===- Spelling.cpp - How the source spelled its collectives --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Spelling.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/OnnxOps.h"
#include "tandem/Passes/Raise.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::tandem;

/// The ops of the source region, from the all-reduce's operand to its result;
/// null unless each is an ONNX node that reads one value and makes one.
static ArrayAttr describeNodes(AllReduceOp op) {
  Builder builder(op.getContext());
  SmallVector<Attribute> nodes;
  for (Operation &source : op.getSource().front().without_terminator()) {
    OnnxNode node(&source);
    if (!node || node.isTorchOperator() || source.getNumOperands() != 1 ||
        source.getNumResults() != 1 || source.getNumRegions() != 0)
      return {};
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : source.getAttrs()) {
      StringRef name = attribute.getName().getValue();
      if (name != "onnx_node_name" && !name.starts_with("tandem."))
        attributes.push_back(attribute);
    }
    nodes.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr(
            "op", builder.getStringAttr(source.getName().getStringRef())),
        builder.getNamedAttr("attributes",
                             builder.getDictionaryAttr(attributes)),
    }));
  }
  return nodes.empty() ? ArrayAttr() : builder.getArrayAttr(nodes);
}

ArrayAttr mlir::tandem::collectAllReduceNodes(ModuleOp module) {
  Builder builder(module.getContext());
  SmallVector<Attribute> entries;
  llvm::DenseSet<std::pair<Attribute, Attribute>> known;
  if (auto given = module->getAttrOfType<ArrayAttr>(allReduceNodesAttrName))
    for (Attribute entry : given) {
      entries.push_back(entry);
      if (auto fields = dyn_cast<DictionaryAttr>(entry))
        known.insert({fields.get("group"), fields.get("reduction")});
    }
  module.walk([&](AllReduceOp op) {
    if (!hasSourceRegion(op))
      return;
    ArrayAttr nodes = describeNodes(op);
    if (!nodes)
      return;
    Attribute group = op.getReductionGroup();
    Attribute reduction =
        ReductionKindAttr::get(op.getContext(), op.getReductionKind());
    if (!known.insert({group, reduction}).second)
      return;
    entries.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("group", group),
        builder.getNamedAttr("nodes", nodes),
        builder.getNamedAttr("reduction", reduction),
    }));
  });
  return entries.empty() ? ArrayAttr() : builder.getArrayAttr(entries);
}

/// The value of the source that stands behind the result of a raised op.
static Value lookThroughRaised(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || !hasSourceRegion(result.getOwner()))
    return value;
  return result.getOwner()->getRegion(0).front().back().getOperand(0);
}

static StringRef getText(Value value, StringRef attrName) {
  auto result = dyn_cast<OpResult>(lookThroughRaised(value));
  if (!result)
    return {};
  auto texts = result.getOwner()->getAttrOfType<ArrayAttr>(attrName);
  if (!texts || texts.size() <= result.getResultNumber())
    return {};
  auto text = dyn_cast<StringAttr>(texts[result.getResultNumber()]);
  return text ? text.getValue() : StringRef();
}

StringRef mlir::tandem::getSourceName(Value value) {
  return getText(value, "tandem.outputs");
}

StringRef mlir::tandem::getDimNames(Value value) {
  return getText(value, "tandem.dim_params");
}
