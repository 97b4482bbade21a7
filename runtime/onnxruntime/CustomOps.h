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

/// An op of ours for one element type, within one session.
struct Op : CustomOp {
  /// Wait is the second half of an all-reduce that has two; it copies.
  enum Kind { Fused, TokenLimit, AllReduce, Wait };

  Op(Kind kind, std::string name, ElementType type, size_t numInputs,
     Group &group);

  Kind kind;
  std::string name;
  ElementType type;
  size_t numInputs;
  Group &group;
};

/// The ops of one domain.
struct DomainOps {
  std::string domain;
  std::vector<std::unique_ptr<Op>> ops;
};

/// Our ops, and the all-reduces of other domains.
std::vector<DomainOps> makeOps(Group &group);

} // namespace tandem::ort

#endif // TANDEM_RUNTIME_ONNXRUNTIME_CUSTOMOPS_H
