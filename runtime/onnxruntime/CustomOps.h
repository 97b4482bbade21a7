//===- CustomOps.h - Tandem's ops in ONNX Runtime -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ONNXRUNTIME_CUSTOMOPS_H
#define TANDEM_RUNTIME_ONNXRUNTIME_CUSTOMOPS_H

#include "Group.h"
#include "OrtAbi.h"

#include <memory>

namespace tandem::ort {

/// An op of ours for one element type and one of ONNX Runtime's providers,
/// within one session.
struct Op : CustomOp {
  /// Wait is the second half of an all-reduce that has two; it copies.
  enum Kind { Fused, TokenLimit, AllReduce, Wait };

  Op(Kind kind, std::string name, ElementType type, size_t numInputs,
     bool onCuda, Group &group);

  Kind kind;
  std::string name;
  ElementType type;
  size_t numInputs;
  /// For the CUDA provider: inputs and outputs are in its GPU's memory, and
  /// calls go to its stream.
  bool onCuda;
  Group &group;
};

/// The ops of one domain.
struct DomainOps {
  std::string domain;
  std::vector<std::unique_ptr<Op>> ops;
};

/// Our ops, and the all-reduces of other domains: for the CPU's provider, and
/// `withCuda` all but TokenLimit, whose result the host needs, for CUDA's, too.
std::vector<DomainOps> makeOps(Group &group, bool withCuda);

} // namespace tandem::ort

#endif // TANDEM_RUNTIME_ONNXRUNTIME_CUSTOMOPS_H
