//===- Rewrite.cpp - Making raised ops from matches -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rewrite.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/OnnxOps/OnnxOps.h"

using namespace mlir;
using namespace mlir::tandem;

Value SourceRewriter::getTensor(Value source) {
  if (Value tensor = tensors.lookup(source))
    return tensor;
  if (isa<TensorType>(source.getType()))
    return source;
  return UnrealizedConversionCastOp::create(rewriter, source.getLoc(),
                                            getRankedTensorType(source), source)
      .getResult(0);
}

Value SourceRewriter::getVector(Value source) {
  Value tensor = getTensor(source);
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  if (rank == 1)
    return tensor;
  SmallVector<ReassociationIndices> groups(1);
  llvm::append_range(groups.front(), llvm::seq<int64_t>(0, rank));
  return tensor::CollapseShapeOp::create(rewriter, source.getLoc(), tensor,
                                         groups);
}

Location SourceRewriter::begin(SourceMatch &match) {
  if (positions)
    llvm::sort(match.sources, [&](Operation *a, Operation *b) {
      return positions->lookup(a) < positions->lookup(b);
    });
  else
    llvm::sort(match.sources, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
  rewriter.setInsertionPoint(match.anchor);
  SmallVector<Location> locs;
  for (Operation *op : match.sources)
    locs.push_back(op->getLoc());
  return rewriter.getFusedLoc(locs);
}

void SourceRewriter::replaceUses(Value source, Value tensor) {
  tensors[source] = tensor;
  if (source.use_empty())
    return;
  Value replacement = tensor;
  if (source.getType() != tensor.getType())
    replacement = UnrealizedConversionCastOp::create(rewriter, tensor.getLoc(),
                                                     source.getType(), tensor)
                      .getResult(0);
  rewriter.replaceAllUsesWith(source, replacement);
}

void SourceRewriter::finish(Operation *op, SourceMatch &match,
                            ArrayRef<std::pair<Value, Value>> replacements) {
  // Names of dims stay known to those who ask the raised op.
  Operation *last = match.result.getDefiningOp();
  if (auto names = last->getAttrOfType<ArrayAttr>("tandem.dim_params");
      names && last->getNumResults() == 1)
    op->setDiscardableAttr("tandem.dim_params", names);

  rewriter.setInsertionPointAfter(op);
  for (auto [source, tensor] : replacements)
    replaceUses(source, tensor);

  Block *body = rewriter.createBlock(&op->getRegion(0));
  SmallVector<int64_t> recorded;
  for (Operation *source : match.sources) {
    if (positions)
      recorded.push_back(positions->lookup(source));
    rewriter.moveOpBefore(source, body, body->end());
  }
  SmallVector<Value> yielded;
  for (auto [source, tensor] : replacements)
    yielded.push_back(source);
  rewriter.setInsertionPointToEnd(body);
  YieldOp::create(rewriter, match.result.getLoc(), yielded);
  if (positions)
    op->setAttr("source_positions", rewriter.getDenseI64ArrayAttr(recorded));
}

void SourceRewriter::raise(AllReduceMatch &match) {
  Location loc = begin(match);
  auto op = AllReduceOp::create(rewriter, loc, getTensor(match.input),
                                match.reduction, match.group);
  finish(op, match, {{match.result, op.getResult()}});
}

void SourceRewriter::raise(AddMatch &match) {
  Location loc = begin(match);
  auto op =
      AddOp::create(rewriter, loc, getTensor(match.lhs), getTensor(match.rhs));
  finish(op, match, {{match.result, op.getResult()}});
}

Value SourceRewriter::makeSourceAdd(Operation *like, Value lhs, Value rhsSource,
                                    Location loc) {
  if (!OnnxNode(like).isTorchOperator()) {
    OperationState state(loc, "onnx.Add", {lhs, getTensor(rhsSource)},
                         {lhs.getType()}, {});
    return rewriter.create(state)->getResult(0);
  }
  auto castTo = [&](Value value, Type type) {
    return UnrealizedConversionCastOp::create(rewriter, loc, type, value)
        .getResult(0);
  };
  Type type = like->getOperand(0).getType();
  Value rhs = rhsSource;
  if (Value raised = tensors.lookup(rhsSource))
    rhs = castTo(raised, rhsSource.getType());
  OperationState state(loc, "torch.operator", {castTo(lhs, type), rhs}, {type},
                       {});
  state.addAttribute("name", rewriter.getStringAttr("onnx.Add"));
  return castTo(rewriter.create(state)->getResult(0), lhs.getType());
}

Value SourceRewriter::makeSum(RMSNormMatch &match, Location loc) {
  Value sum = getTensor(match.addLhs);
  if (match.broadcasts)
    sum = makeSourceAdd(match.anchor, sum, match.addRhs, loc);
  else
    sum = AddOp::create(rewriter, loc, sum, getTensor(match.addRhs));
  if (match.bias)
    sum = makeSourceAdd(match.anchor, sum, match.bias, loc);
  return sum;
}

void SourceRewriter::raise(RMSNormMatch &match) {
  Location loc = begin(match);
  Value input = match.input ? getTensor(match.input) : makeSum(match, loc);
  auto op = RMSNormOp::create(rewriter, loc, input, getVector(match.gamma),
                              match.epsilon, match.rounding);
  SmallVector<std::pair<Value, Value>, 2> replacements = {
      {match.result, op.getResult()}};
  if (match.sumResult)
    replacements.push_back({match.sumResult, input});
  finish(op, match, replacements);
}
