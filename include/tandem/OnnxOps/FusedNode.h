//===- FusedNode.h - Nodes of the domain ai.tandem ------------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ONNX form of tandem.fused_all_reduce_norm, which docs/export.md tells.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ONNXOPS_FUSEDNODE_H
#define TANDEM_ONNXOPS_FUSEDNODE_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::tandem {

/// The domain of our ops in ONNX, and the version that it is at.
inline constexpr StringLiteral onnxDomain("ai.tandem");
inline constexpr int64_t onnxDomainVersion = 1;

/// Discardable attribute of a fused op that was raised from a node: the limit
/// that the node has beside the runtime's.
inline constexpr StringLiteral maxTokensAttrName("tandem.max_tokens");

/// Which inputs a fused op of the domain has beside its first and its last.
struct FusedNodeForm {
  bool hasBias = false;
  bool hasPreGamma = false;
  bool hasResidual = false;

  unsigned getNumInputs() const {
    return 2 + hasBias + hasPreGamma + hasResidual;
  }
  /// Norm, new residual and sum.
  static constexpr unsigned numOutputs = 3;

  /// "AllReduceAddRMSNorm" and its like.
  std::string getName() const;
};

/// Reads an op type of the domain, which may have a number behind it, as in
/// "AllReduceAddRMSNorm_2". No value if it is not a fused op.
std::optional<FusedNodeForm> parseFusedNodeName(StringRef opType);

/// Whether it is "TokenLimit", maybe with a number behind it.
bool isTokenLimitName(StringRef opType);

/// The form of an `onnx.Custom` that is a fused op of the domain.
std::optional<FusedNodeForm> getFusedNodeForm(Operation *op);

/// What the exporter names the branches of a guard.
constexpr llvm::StringLiteral guardBodyNames[] = {"fused", "unfused"};

/// Whether `op` is an `onnx.If` that the exporter wrote to guard a fused op:
/// its branches have those names, and the first one holds such an op, raised or
/// not. The other branch is the fallback, with the source's ops.
bool isFusionGuard(Operation *op);

} // namespace mlir::tandem

#endif // TANDEM_ONNXOPS_FUSEDNODE_H
