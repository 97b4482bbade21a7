//===- OnnxToLinalg.cpp - The pass tandem-onnx-to-linalg ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Analysis/SymbolicShape.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/FusionReport.h"
#include "tandem/Passes/Raise.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMONNXTOLINALG
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// What lowers `node`, null where nothing does.
static LowerFn lookup(OnnxNode node) {
  if (!node.getDomain().empty() || node.isTorchOperator())
    return nullptr;
  StringRef opType = node.getOpType();
  for (auto table : {lookupConstant, lookupElementwise, lookupMatMul,
                     lookupReduce, lookupShapes})
    if (LowerFn function = table(opType))
      return function;
  return nullptr;
}

static bool isNoValue(Operation *op) {
  return op->getName().getStringRef() == "onnx.NoValue";
}

/// A raised op stands for its sources, which are not needed any more.
static void dropSources(Operation *root) {
  root->walk([](Operation *op) {
    if (!isa<AllReduceOp, AddOp, RMSNormOp>(op))
      return;
    Region &source = op->getRegion(0);
    source.dropAllReferences();
    source.getBlocks().clear();
    op->removeAttr("source_positions");
  });
}

/// Reports all ops that can't be lowered in one error.
static LogicalResult reportUnsupported(ModuleOp module,
                                       ArrayRef<Operation *> ops) {
  llvm::MapVector<StringRef, SmallVector<Operation *>> kinds;
  SmallVector<std::string> names;
  names.reserve(ops.size());
  for (Operation *op : ops) {
    OnnxNode node(op);
    StringRef domain = node.getDomain();
    names.push_back(
        ((domain.empty() ? "onnx" : domain) + "." + node.getOpType()).str());
  }
  for (auto [name, op] : llvm::zip_equal(names, ops))
    kinds[name].push_back(op);
  InFlightDiagnostic diagnostic = emitError(module.getLoc());
  diagnostic << "tandem-onnx-to-linalg: " << ops.size() << " of the ops are of "
             << kinds.size() << (kinds.size() == 1 ? " kind" : " kinds")
             << " that can't be lowered: ";
  llvm::interleave(
      kinds,
      [&](auto &kind) {
        diagnostic << kind.first << " (" << kind.second.size() << ", first at "
                   << getLocationText(kind.second.front()->getLoc()) << ")";
      },
      [&] { diagnostic << ", "; });
  return diagnostic;
}

/// Whether, at each dimension counted from the right, all inputs of `op` that
/// have a size other than the constant 1 there have the same size.
static SmallVector<bool> getBroadcastFacts(Operation *op,
                                           ShapeAnalysis &shapes) {
  SmallVector<Value> inputs;
  int64_t rank = 0;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type)
      return {};
    inputs.push_back(operand);
    rank = std::max(rank, type.getRank());
  }
  SmallVector<bool> facts(rank, true);
  for (int64_t fromRight = 0; fromRight < rank; ++fromRight) {
    Value reference;
    int64_t referenceDim = 0;
    for (Value input : inputs) {
      auto type = cast<RankedTensorType>(input.getType());
      int64_t dim = type.getRank() - 1 - fromRight;
      if (dim < 0 || type.getDimSize(dim) == 1)
        continue;
      if (!reference) {
        reference = input;
        referenceDim = dim;
      } else if (!shapes.provablyEqualDims(reference, referenceDim, input,
                                           dim)) {
        facts[fromRight] = false;
      }
    }
  }
  return facts;
}

/// Gives the value the type that the node's result was declared with. A size
/// that only the declaration knows is checked when the program runs.
static FailureOr<Value> castToDeclared(NodeLowering &lowering, Value value,
                                       unsigned index) {
  auto declared = lowering.getResultType(index);
  auto type = cast<RankedTensorType>(value.getType());
  if (!declared || declared == type)
    return value;
  if (declared.getElementType() != type.getElementType() ||
      declared.getRank() != type.getRank()) {
    std::string text;
    llvm::raw_string_ostream(text) << "has output #" << index << " declared as "
                                   << declared << ", but it is " << type;
    return lowering.error(text);
  }
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (!declared.isDynamicDim(i) &&
        failed(
            lowering.checkSize(value, i, declared.getDimSize(i),
                               "has an output of another size than declared")))
      return failure();
  return Value(
      tensor::CastOp::create(lowering.builder, lowering.loc, declared, value));
}

/// Whether `value`, whose type is no ranked tensor, may get one: only nodes
/// that are lowered themselves use it.
static bool areUsersNodes(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    return static_cast<bool>(OnnxNode(user));
  });
}

static LogicalResult lowerNode(OnnxNode node, const BroadcastFacts &facts,
                               ExternalDataReader &externalData) {
  Operation *op = node.getOperation();
  NodeLowering lowering(node, facts, externalData);
  Results results;
  if (failed(lookup(node)(lowering, results)))
    return failure();
  if (results.size() != op->getNumResults())
    return lowering.error("has " + Twine(op->getNumResults()) +
                          " outputs; it can have " + Twine(results.size()));
  for (auto [index, value] : llvm::enumerate(results)) {
    Value old = op->getResult(index);
    if (old.use_empty())
      continue;
    FailureOr<Value> cast = castToDeclared(lowering, value, index);
    if (failed(cast))
      return failure();
    if (cast->getType() != old.getType() && !areUsersNodes(old))
      return lowering.error("has an output whose rank is not declared");
    old.replaceAllUsesWith(*cast);
  }
  op->erase();
  return success();
}

namespace {
struct OnnxToLinalg : tandem::impl::TandemOnnxToLinalgBase<OnnxToLinalg> {
  using TandemOnnxToLinalgBase::TandemOnnxToLinalgBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // What did not fuse may have been restored to source ops; the collectives
    // and norms among them are the runtime's.
    dropSources(module);
    raiseSourceOps(module);
    dropSources(module);

    SmallVector<OnnxNode> nodes;
    SmallVector<Operation *> unsupported, absent;
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isNoValue(op)) {
        absent.push_back(op);
        return;
      }
      OnnxNode node(op);
      if (!node)
        return;
      if (lookup(node))
        nodes.push_back(node);
      else if (node.getOpType() != "Yield")
        unsupported.push_back(op);
    });
    if (!unsupported.empty()) {
      (void)reportUnsupported(module, unsupported);
      return signalPassFailure();
    }

    BroadcastFacts facts;
    {
      ShapeAnalysis shapes;
      for (OnnxNode node : nodes)
        if (doesBroadcast(node.getOpType()))
          facts[node.getOperation()] =
              getBroadcastFacts(node.getOperation(), shapes);
    }
    SmallVector<tensor::CastOp> casts;
    module.walk([&](tensor::CastOp cast) { casts.push_back(cast); });
    ExternalDataReader reader(externalDataDir);
    for (OnnxNode node : nodes)
      if (failed(lowerNode(node, facts, reader)))
        return signalPassFailure();
    for (tensor::CastOp cast : casts)
      checkCast(cast);
    for (Operation *op : absent)
      if (op->use_empty())
        op->erase();
  }
};
} // namespace
