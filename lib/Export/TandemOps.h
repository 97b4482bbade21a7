//===- TandemOps.h - Tandem's ops in plain ONNX -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_TANDEMOPS_H
#define TANDEM_LIB_EXPORT_TANDEMOPS_H

#include "ProtoConversion.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <set>

namespace mlir::tandem::onnx {

/// The domain of our ops.
/// Where new nodes go, and how they and new values are named.
struct NodeSink {
  google::protobuf::RepeatedPtrField<::tandem_onnx::NodeProto> &nodes;
  /// A new name that tells of what it is given.
  llvm::function_ref<std::string(StringRef)> newValue;
  llvm::function_ref<std::string(StringRef)> newNode;
  /// The version of ai.onnx.
  int64_t opset;

  ::tandem_onnx::NodeProto &add(StringRef opType, ArrayRef<StringRef> inputs,
                                StringRef output) const;
  /// The same with a new output, whose name is returned.
  std::string make(StringRef opType, ArrayRef<StringRef> inputs,
                   StringRef hint) const;
  /// A Cast, or `input` itself where nothing is to be done.
  std::string cast(StringRef input, int32_t from, int32_t to,
                   StringRef hint) const;
  /// A Constant of int64 elements: a scalar, or a list.
  std::string integer(int64_t value, StringRef hint) const;
  std::string integers(ArrayRef<int64_t> values, StringRef hint) const;
  /// `a > b` and `a < b` of int64 scalars, in any opset.
  std::string compare(StringRef opType, StringRef a, StringRef b,
                      StringRef hint) const;
  std::string minimum(StringRef a, StringRef b, StringRef hint) const;
};

/// A norm to be written.
struct NormSpec {
  int32_t dataType; ///< of input and output
  int32_t gammaType;
  double epsilon;
  NormRounding rounding;
  /// In the body of a function: its attribute that holds epsilon.
  StringRef epsilonAttribute;
};

/// `output = rms_norm(input, gamma)`, as RMSNormalization where the opset has
/// it and it rounds the same.
void writeNorm(const NodeSink &sink, const NormSpec &norm, StringRef input,
               StringRef gamma, StringRef output);

/// Writes Tandem's ops, and the functions that say what they mean.
class TandemOpWriter {
public:
  TandemOpWriter(ModuleOp module, ::tandem_onnx::ModelProto &model,
                 ProtoConverter &converter, int64_t opset);

  /// `output = all_reduce(input)` in the source's nodes; false, after an error
  /// at `op`, if they aren't known.
  bool writeAllReduce(const NodeSink &sink, Operation *op, GroupAttr group,
                      ReductionKind reduction, StringRef input,
                      StringRef output);

  /// Makes `node` a call of `op`'s function, all but inputs and outputs. The
  /// inputs of the function are input, bias, pre_gamma, residual and gamma,
  /// without those that `op` lacks; its outputs are the norm, the new residual
  /// and the sum.
  bool writeFused(FusedAllReduceNormOp op, std::optional<int64_t> maxTokens,
                  ::tandem_onnx::NodeProto &node);
  void writeTokenLimit(TokenLimitOp op, ::tandem_onnx::NodeProto &node);

  /// Has ops call `function`, one of the source's, where it is the same as
  /// theirs would be.
  void know(const ::tandem_onnx::FunctionProto &function);

  /// Whether an op of ours was written, so that the model needs our domain.
  bool isUsed() const { return hasWritten; }

  /// Domains and types of the nodes that were written for all-reduces.
  const std::set<std::pair<std::string, std::string>> &
  getAllReduceNodes() const {
    return allReduceNodes;
  }

private:
  ArrayAttr nodesOf(GroupAttr group, ReductionKind reduction) const;
  /// Adds the function, or finds one that is the same. Sets its name.
  void finish(::tandem_onnx::FunctionProto &function, StringRef name);
  void addOpset(::tandem_onnx::FunctionProto &function, StringRef domain);

  ModuleOp module;
  ::tandem_onnx::ModelProto &model;
  ProtoConverter &converter;
  int64_t opset;
  /// Names of functions by their contents, and those that the source has.
  llvm::StringMap<std::string> functions;
  llvm::StringSet<> sourceNames;
  bool hasWritten = false;
  std::set<std::pair<std::string, std::string>> allReduceNodes;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_TANDEMOPS_H
