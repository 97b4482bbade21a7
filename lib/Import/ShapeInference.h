//===- ShapeInference.h - Types and shapes of ONNX values -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One small function for each family of ops, in a table by domain and op type.
// They work on element types, ranks, dims that may be symbols ("seq"), and on
// the contents of small integer tensors, because exporters compute shapes with
// Shape, Gather, Concat and the like. Nothing here knows MLIR's IR.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_SHAPEINFERENCE_H
#define TANDEM_LIB_IMPORT_SHAPEINFERENCE_H

#include "ValueInfo.h"
#include "llvm/ADT/ArrayRef.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tandem_onnx {
class AttributeProto;
class TensorProto;
} // namespace tandem_onnx

namespace mlir::tandem::onnx {

/// One node, as the inference functions see it. They fill `outputs`; what they
/// leave alone stays unknown.
class NodeInference {
public:
  /// Reads the elements of an integer tensor. Returns false, with an error, if
  /// they cannot be read.
  using LoadFn = llvm::function_ref<bool(const ::tandem_onnx::TensorProto &,
                                         SymInts &, std::string &)>;

  /// `inputs` holds null for inputs that are left out. `attributes` are those
  /// of the node, references resolved. `readsExternal` says whether external
  /// data may be read to find a shape.
  NodeInference(
      llvm::StringRef opType, llvm::ArrayRef<const ValueInfo *> inputs,
      llvm::ArrayRef<const ::tandem_onnx::AttributeProto *> attributes,
      llvm::MutableArrayRef<ValueInfo> outputs, bool readsExternal, LoadFn load)
      : opType(opType), inputs(inputs), outputs(outputs),
        attributes(attributes), readsExternal(readsExternal), load(load) {}

  llvm::StringRef opType;
  llvm::ArrayRef<const ValueInfo *> inputs;
  llvm::MutableArrayRef<ValueInfo> outputs;

  bool hasInput(size_t index) const {
    return index < inputs.size() && inputs[index];
  }
  /// The input, or an unknown value if it is left out.
  const ValueInfo &input(size_t index) const;
  bool hasOutput(size_t index) const { return index < outputs.size(); }

  /// The elements of an input that is a small integer tensor; null if nothing
  /// is known of them.
  const SymInts *elements(size_t index, SymInts &storage);
  /// The same for a tensor attribute.
  const SymInts *elements(const ::tandem_onnx::TensorProto &tensor,
                          SymInts &storage);

  const ::tandem_onnx::AttributeProto *attribute(llvm::StringRef name) const;
  /// Each of these reports an attribute of the wrong kind, and returns the
  /// default then.
  int64_t intAttribute(llvm::StringRef name, int64_t defaultValue);
  std::optional<int64_t> optionalInt(llvm::StringRef name);
  void checkFloat(llvm::StringRef name);
  bool intsAttribute(llvm::StringRef name,
                     llvm::SmallVectorImpl<int64_t> &values);
  llvm::StringRef stringAttribute(llvm::StringRef name,
                                  llvm::StringRef defaultValue);
  const ::tandem_onnx::TensorProto *tensorAttribute(llvm::StringRef name);

  /// Records that the node cannot be right. The first message is kept.
  void fail(const llvm::Twine &message) {
    if (problem.empty())
      problem = message.str();
  }
  bool failed() const { return !problem.empty(); }
  const std::string &message() const { return problem; }

private:
  const ::tandem_onnx::AttributeProto *
  typedAttribute(llvm::StringRef name, int type, llvm::StringRef typeName);

  llvm::ArrayRef<const ::tandem_onnx::AttributeProto *> attributes;
  bool readsExternal;
  LoadFn load;
  std::string problem;
};

using InferFn = void (*)(NodeInference &);

/// The inference function for an op; null if there is none. The domain
/// "ai.onnx" is written "".
InferFn findInference(llvm::StringRef domain, llvm::StringRef opType);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_SHAPEINFERENCE_H
