//===- FusedNode.cpp - Nodes of the domain ai.tandem ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/FusedNode.h"

#include "tandem/OnnxOps/OnnxOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tandem;

std::string FusedNodeForm::getName() const {
  std::string name = "AllReduce";
  if (hasBias)
    name += "Bias";
  if (hasPreGamma)
    name += "RMSNorm";
  if (hasResidual)
    name += "Add";
  return name + "RMSNorm";
}

/// Functions of one name but different bodies have numbers.
static StringRef dropNumber(StringRef name) {
  auto [base, number] = name.rsplit('_');
  bool isNumber = !number.empty() && llvm::all_of(number, llvm::isDigit);
  return isNumber ? base : name;
}

std::optional<FusedNodeForm>
mlir::tandem::parseFusedNodeName(StringRef opType) {
  StringRef name = dropNumber(opType);
  FusedNodeForm form;
  if (!name.consume_front("AllReduce") || !name.consume_back("RMSNorm"))
    return std::nullopt;
  form.hasBias = name.consume_front("Bias");
  form.hasPreGamma = name.consume_front("RMSNorm");
  form.hasResidual = name.consume_front("Add");
  // Two norms without a residual between them are never made.
  if (!name.empty() || (form.hasPreGamma && !form.hasResidual))
    return std::nullopt;
  return form;
}

bool mlir::tandem::isTokenLimitName(StringRef opType) {
  return dropNumber(opType) == "TokenLimit";
}

std::optional<FusedNodeForm> mlir::tandem::getFusedNodeForm(Operation *op) {
  OnnxNode node(op);
  if (!node || node.isTorchOperator() || node.getDomain() != onnxDomain)
    return std::nullopt;
  std::optional<FusedNodeForm> form = parseFusedNodeName(node.getOpType());
  if (!form || op->getNumOperands() != form->getNumInputs() ||
      op->getNumResults() == 0 ||
      op->getNumResults() > FusedNodeForm::numOutputs)
    return std::nullopt;
  return form;
}

bool mlir::tandem::isFusionGuard(Operation *op) {
  if (op->getName().getStringRef() != "onnx.If" || op->getNumRegions() != 2 ||
      op->getRegion(0).empty())
    return false;
  // An If of the user's own may hold a fused op, too.
  auto bodies = op->getAttrOfType<ArrayAttr>("tandem.bodies");
  auto isNamed = [&](unsigned index, StringRef name) {
    auto body = dyn_cast<DictionaryAttr>(bodies[index]);
    auto text = body ? body.getAs<StringAttr>("name") : StringAttr();
    return text && text.getValue() == name;
  };
  if (!bodies || bodies.size() != 2 || !isNamed(0, guardBodyNames[0]) ||
      !isNamed(1, guardBodyNames[1]))
    return false;
  return llvm::any_of(op->getRegion(0).front(), [](Operation &inner) {
    return inner.getName().getStringRef() == "tandem.fused_all_reduce_norm" ||
           getFusedNodeForm(&inner);
  });
}
