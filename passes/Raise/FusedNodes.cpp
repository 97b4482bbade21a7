//===- FusedNodes.cpp - Raising nodes of the domain ai.tandem -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FusedNodes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "tandem/OnnxOps/OnnxOps.h"
#include "llvm/ADT/SmallSet.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// The operands of a fused node by their meaning.
struct Operands {
  Operands(Operation *op, const FusedNodeForm &form) {
    unsigned next = 0;
    input = op->getOperand(next++);
    if (form.hasBias)
      bias = op->getOperand(next++);
    if (form.hasPreGamma)
      preGamma = op->getOperand(next++);
    if (form.hasResidual)
      residual = op->getOperand(next++);
    gamma = op->getOperand(next);
  }
  Value input, bias, preGamma, residual, gamma;
};

/// A fused node, and what its attributes say.
struct FusedNode {
  Operation *op;
  FusedNodeForm form;
  RankedTensorType type;
  GroupAttr group;
  double epsilon, preEpsilon = 0;
  NormRounding rounding, preRounding = NormRounding::BeforeGamma;
  int64_t maxTokens;
  bool isBatchInvariant;
};
} // namespace

static bool isRow(Value value, RankedTensorType type, bool hasItsType) {
  auto row = dyn_cast<RankedTensorType>(value.getType());
  return row && row.getRank() == 1 &&
         row.getDimSize(0) == type.getShape().back() &&
         isa<FloatType>(row.getElementType()) &&
         (!hasItsType || row.getElementType() == type.getElementType());
}

static bool fits(Type given, RankedTensorType type) {
  auto ranked = dyn_cast<RankedTensorType>(given);
  return ranked && ranked.getElementType() == type.getElementType() &&
         succeeded(verifyCompatibleShape(ranked, type));
}

static GroupAttr getGroup(OnnxNode node) {
  auto name = node.getString("group");
  int64_t size = node.getInt("group_size").value_or(0);
  auto ranks = node.getInts("ranks");
  llvm::SmallSet<int64_t, 8> seen;
  bool isValid = name && !name->empty() && size >= 0;
  if (ranks)
    isValid &= ranks->empty() ||
               (size > 0 && ranks->size() % static_cast<size_t>(size) == 0 &&
                llvm::all_of(*ranks, [&](int64_t rank) {
                  return rank >= 0 && seen.insert(rank).second;
                }));
  if (!isValid)
    return {};
  return GroupAttr::get(node.getOperation()->getContext(), *name, size,
                        ranks ? ArrayRef<int64_t>(*ranks)
                              : ArrayRef<int64_t>());
}

/// Whether it is known how the source spells the group's all-reduce. Without,
/// the fused op could not be exported again.
static bool isSpellingKnown(ModuleOp module, GroupAttr group) {
  auto entries = module->getAttrOfType<ArrayAttr>(allReduceNodesAttrName);
  return entries && llvm::any_of(entries, [&](Attribute entry) {
           auto fields = dyn_cast<DictionaryAttr>(entry);
           return fields && fields.get("group") == group;
         });
}

static bool readNorm(OnnxNode node, StringRef prefix, double &epsilon,
                     NormRounding &rounding) {
  auto given = node.getFloat((prefix + "epsilon").str());
  auto text = node.getString((prefix + "rounding").str());
  auto kind = text ? symbolizeNormRounding(*text) : std::nullopt;
  if (!given || !kind || *given < 0 || !std::isfinite(*given))
    return false;
  epsilon = *given;
  rounding = *kind;
  return true;
}

static std::optional<FusedNode> match(Operation *op, ModuleOp module) {
  auto form = getFusedNodeForm(op);
  if (!form || llvm::any_of(op->getOperands(), isAbsent))
    return std::nullopt;
  OnnxNode node(op);
  FusedNode found;
  found.op = op;
  found.form = *form;
  Operands operands(op, *form);
  found.type = dyn_cast<RankedTensorType>(operands.input.getType());
  // The attribute of a f64 norm has not all bits of its epsilon.
  if (!found.type || found.type.getRank() == 0 ||
      ShapedType::isDynamic(found.type.getShape().back()) ||
      !isa<FloatType>(found.type.getElementType()) ||
      found.type.getElementType().isF64())
    return std::nullopt;
  if (!isRow(operands.gamma, found.type, false) ||
      (operands.bias && !isRow(operands.bias, found.type, true)) ||
      (operands.preGamma && !isRow(operands.preGamma, found.type, false)) ||
      (operands.residual && !fits(operands.residual.getType(), found.type)))
    return std::nullopt;
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    bool isLeftOut = isa<NoneType>(result.getType()) && result.use_empty();
    bool isNeeded = index == 0 || !isLeftOut;
    if ((isNeeded && !fits(result.getType(), found.type)) ||
        (index == 1 && isNeeded && !form->hasResidual))
      return std::nullopt;
  }

  found.group = getGroup(node);
  if (!found.group || !isSpellingKnown(module, found.group) ||
      !readNorm(node, "", found.epsilon, found.rounding) ||
      (form->hasPreGamma &&
       !readNorm(node, "pre_", found.preEpsilon, found.preRounding)))
    return std::nullopt;
  found.maxTokens = node.getInt("max_tokens").value_or(-1);
  found.isBatchInvariant = node.getInt("batch_invariant").value_or(0) != 0;
  return found;
}

static void rewrite(IRRewriter &rewriter, const FusedNode &node) {
  Operation *op = node.op;
  Location loc = op->getLoc();
  // Not before: another node's rewrite may have replaced them.
  Operands operands(op, node.form);
  rewriter.setInsertionPoint(op);
  SmallVector<Value, 3> replaced;
  SmallVector<StringRef, 3> names, dims;
  auto textOf = [&](StringRef attrName, unsigned index) -> StringRef {
    auto list = op->getAttrOfType<ArrayAttr>(attrName);
    auto text = list && index < list.size() ? dyn_cast<StringAttr>(list[index])
                                            : StringAttr();
    return text ? text.getValue() : StringRef();
  };
  bool returns[3] = {};
  for (unsigned i = 0; i != op->getNumResults(); ++i) {
    if (isa<NoneType>(op->getResult(i).getType()))
      continue;
    returns[i] = true;
    replaced.push_back(op->getResult(i));
    names.push_back(textOf("tandem.outputs", i));
    dims.push_back(textOf("tandem.dim_params", i));
  }
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, operands.input);
  SmallVector<Value, 3> inits;
  for (Value value : replaced) {
    Value init = tensor::EmptyOp::create(rewriter, loc, sizes,
                                         node.type.getElementType());
    if (init.getType() != value.getType())
      init = tensor::CastOp::create(rewriter, loc, value.getType(), init);
    inits.push_back(init);
  }
  MLIRContext *context = op->getContext();
  auto unitIf = [&](bool set) {
    return set ? rewriter.getUnitAttr() : UnitAttr();
  };
  FloatAttr preEpsilon;
  if (operands.preGamma)
    preEpsilon = rewriter.getF64FloatAttr(node.preEpsilon);
  auto fused = FusedAllReduceNormOp::create(
      rewriter, loc, SmallVector<Type>(ValueRange(inits).getTypes()),
      operands.input, operands.residual, operands.bias, operands.preGamma,
      operands.gamma,
      /*workspace=*/Value(), /*stream=*/Value(), inits, node.group,
      rewriter.getF64FloatAttr(node.epsilon),
      NormRoundingAttr::get(context, node.rounding), preEpsilon,
      NormRoundingAttr::get(context, node.preRounding), unitIf(returns[1]),
      unitIf(returns[2]), unitIf(node.isBatchInvariant));
  fused->setDiscardableAttr("tandem.outputs", rewriter.getStrArrayAttr(names));
  if (!llvm::all_of(dims, [](StringRef text) { return text.empty(); }))
    fused->setDiscardableAttr("tandem.dim_params",
                              rewriter.getStrArrayAttr(dims));
  for (StringRef kept : {"onnx_node_name", "tandem.extra"})
    if (Attribute value = op->getAttr(kept))
      fused->setDiscardableAttr(kept, value);
  // What tandem-fuse would have said of it.
  std::string guard = node.maxTokens < 0
                          ? "tokens <= token_limit"
                          : "tokens <= " + std::to_string(node.maxTokens);
  if (isFusionGuard(op->getParentOp()))
    guard = "as the model checks";
  fused->setDiscardableAttr("tandem.guard", rewriter.getStringAttr(guard));
  if (node.maxTokens >= 0)
    fused->setDiscardableAttr(maxTokensAttrName,
                              rewriter.getI64IntegerAttr(node.maxTokens));
  for (auto [from, to] : llvm::zip_equal(replaced, fused.getResults()))
    rewriter.replaceAllUsesWith(from, to);
  rewriter.eraseOp(op);
}

bool mlir::tandem::raiseFusedNodes(ModuleOp module) {
  SmallVector<FusedNode> nodes;
  module.walk([&](Operation *op) {
    if (auto node = match(op, module))
      nodes.push_back(*node);
  });
  IRRewriter rewriter(module.getContext());
  for (const FusedNode &node : nodes)
    rewrite(rewriter, node);
  return !nodes.empty();
}
