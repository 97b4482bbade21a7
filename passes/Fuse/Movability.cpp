//===- Movability.cpp - Which ops a collective may pass -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Movability.h"

#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tandem;

/// ai.onnx ops that compute their results from their operands alone. Left out:
/// random ops, Dropout and BatchNormalization (state in training mode), and
/// anything that isn't sure.
static const llvm::StringSet<> &getDeterministicOnnxOps() {
  static const llvm::StringSet<> ops = {"Abs",
                                        "Acos",
                                        "Acosh",
                                        "Add",
                                        "AffineGrid",
                                        "And",
                                        "ArgMax",
                                        "ArgMin",
                                        "Asin",
                                        "Asinh",
                                        "Atan",
                                        "Atanh",
                                        "Attention",
                                        "AveragePool",
                                        "BitCast",
                                        "BitShift",
                                        "BitwiseAnd",
                                        "BitwiseNot",
                                        "BitwiseOr",
                                        "BitwiseXor",
                                        "Cast",
                                        "CastLike",
                                        "Ceil",
                                        "Celu",
                                        "CenterCropPad",
                                        "Clip",
                                        "Compress",
                                        "Concat",
                                        "ConcatFromSequence",
                                        "Constant",
                                        "ConstantOfShape",
                                        "Conv",
                                        "ConvInteger",
                                        "ConvTranspose",
                                        "Cos",
                                        "Cosh",
                                        "CumProd",
                                        "CumSum",
                                        "DepthToSpace",
                                        "DequantizeLinear",
                                        "Det",
                                        "Div",
                                        "DynamicQuantizeLinear",
                                        "Einsum",
                                        "Elu",
                                        "Equal",
                                        "Erf",
                                        "Exp",
                                        "Expand",
                                        "EyeLike",
                                        "Flatten",
                                        "Floor",
                                        "GRU",
                                        "Gather",
                                        "GatherElements",
                                        "GatherND",
                                        "Gelu",
                                        "Gemm",
                                        "GlobalAveragePool",
                                        "GlobalMaxPool",
                                        "Greater",
                                        "GreaterOrEqual",
                                        "GridSample",
                                        "GroupNormalization",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "Hardmax",
                                        "Identity",
                                        "If",
                                        "InstanceNormalization",
                                        "IsInf",
                                        "IsNaN",
                                        "LRN",
                                        "LSTM",
                                        "LayerNormalization",
                                        "LeakyRelu",
                                        "Less",
                                        "LessOrEqual",
                                        "Log",
                                        "LogSoftmax",
                                        "Loop",
                                        "LpNormalization",
                                        "LpPool",
                                        "MatMul",
                                        "MatMulInteger",
                                        "Max",
                                        "MaxPool",
                                        "Mean",
                                        "MeanVarianceNormalization",
                                        "Min",
                                        "Mish",
                                        "Mod",
                                        "Mul",
                                        "Neg",
                                        "NoValue",
                                        "NonMaxSuppression",
                                        "NonZero",
                                        "Not",
                                        "OneHot",
                                        "Optional",
                                        "OptionalGetElement",
                                        "OptionalHasElement",
                                        "Or",
                                        "PRelu",
                                        "Pad",
                                        "Pow",
                                        "QLinearConv",
                                        "QLinearMatMul",
                                        "QuantizeLinear",
                                        "RMSNormalization",
                                        "RNN",
                                        "Range",
                                        "Reciprocal",
                                        "ReduceL1",
                                        "ReduceL2",
                                        "ReduceLogSum",
                                        "ReduceLogSumExp",
                                        "ReduceMax",
                                        "ReduceMean",
                                        "ReduceMin",
                                        "ReduceProd",
                                        "ReduceSum",
                                        "ReduceSumSquare",
                                        "Relu",
                                        "Reshape",
                                        "Resize",
                                        "ReverseSequence",
                                        "RotaryEmbedding",
                                        "Round",
                                        "Scan",
                                        "ScatterElements",
                                        "ScatterND",
                                        "Selu",
                                        "SequenceAt",
                                        "SequenceConstruct",
                                        "SequenceEmpty",
                                        "SequenceErase",
                                        "SequenceInsert",
                                        "SequenceLength",
                                        "SequenceMap",
                                        "Shape",
                                        "Shrink",
                                        "Sigmoid",
                                        "Sign",
                                        "SimplifiedLayerNormalization",
                                        "Sin",
                                        "Sinh",
                                        "Size",
                                        "Slice",
                                        "Softmax",
                                        "Softplus",
                                        "Softsign",
                                        "SpaceToDepth",
                                        "Split",
                                        "SplitToSequence",
                                        "Sqrt",
                                        "Squeeze",
                                        "Sub",
                                        "Sum",
                                        "Swish",
                                        "Tan",
                                        "Tanh",
                                        "TensorScatter",
                                        "ThresholdedRelu",
                                        "Tile",
                                        "TopK",
                                        "Transpose",
                                        "Trilu",
                                        "Unique",
                                        "Unsqueeze",
                                        "Upsample",
                                        "Where",
                                        "Xor",
                                        "Yield"};
  return ops;
}

static bool isEffectFreeAlone(Operation *op) {
  if (OnnxNode node(op); node) {
    // Norms that ONNX Runtime registers under both domains.
    if (node.is("SimplifiedLayerNormalization", "com.microsoft") ||
        node.is("SkipSimplifiedLayerNormalization", "com.microsoft"))
      return true;
    return node.getDomain().empty() &&
           getDeterministicOnnxOps().contains(node.getOpType());
  }
  if (auto interface = dyn_cast<MemoryEffectOpInterface>(op)) {
    SmallVector<MemoryEffects::EffectInstance> effects;
    interface.getEffects(effects);
    return effects.empty();
  }
  // No interface can be asked about an op that nobody registered; whoever made
  // it may say so.
  if (!op->isRegistered() && op->hasAttr("tandem.pure"))
    return true;
  return op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
         op->hasTrait<OpTrait::IsTerminator>();
}

bool mlir::tandem::mayPassCollective(Operation *op) {
  if (!isEffectFreeAlone(op))
    return false;
  // The source region of a raised op that is free of effects only says where
  // the op came from.
  if (op->getName().getDialectNamespace() == "tandem")
    return true;
  for (Region &region : op->getRegions())
    for (Operation &nested : region.getOps())
      if (!mayPassCollective(&nested))
        return false;
  return true;
}

void mlir::tandem::eraseIfDead(RewriterBase &rewriter,
                               llvm::SetVector<Operation *> &worklist) {
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!op->use_empty() || op->hasTrait<OpTrait::IsTerminator>() ||
        !mayPassCollective(op))
      continue;
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && !op->isAncestor(producer))
          worklist.insert(producer);
    });
    rewriter.eraseOp(op);
  }
}
