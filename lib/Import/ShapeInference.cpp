//===- ShapeInference.cpp - Types and shapes of ONNX values ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeInference.h"

#include "Inference/Rules.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir::tandem::onnx;
using llvm::ArrayRef;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::TensorProto;

const ValueInfo &NodeInference::input(size_t index) const {
  static const ValueInfo unknown;
  return hasInput(index) ? *inputs[index] : unknown;
}

const SymInts *NodeInference::elements(size_t index, SymInts &storage) {
  const ValueInfo &info = input(index);
  if (info.elements)
    return info.elements.get();
  if (!info.constant)
    return nullptr;
  return elements(*info.constant, storage);
}

const SymInts *NodeInference::elements(const TensorProto &tensor,
                                       SymInts &storage) {
  if (tensor.data_location() == TensorProto::EXTERNAL && !readsExternal)
    return nullptr;
  std::string error;
  if (!load(tensor, storage, error)) {
    if (!error.empty())
      fail("'" + tensor.name() + "' " + error);
    return nullptr;
  }
  return &storage;
}

const AttributeProto *NodeInference::attribute(StringRef name) const {
  for (const AttributeProto *attribute : attributes)
    if (attribute->name() == name)
      return attribute;
  return nullptr;
}

const AttributeProto *NodeInference::typedAttribute(StringRef name, int type,
                                                    StringRef typeName) {
  const AttributeProto *found = attribute(name);
  if (!found || found->type() == type)
    return found;
  fail("attribute '" + name + "' must be " + typeName);
  return nullptr;
}

int64_t NodeInference::intAttribute(StringRef name, int64_t defaultValue) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INT, "an integer");
  return found ? found->i() : defaultValue;
}

std::optional<int64_t> NodeInference::optionalInt(StringRef name) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INT, "an integer");
  return found ? std::optional<int64_t>(found->i()) : std::nullopt;
}

void NodeInference::checkFloat(StringRef name) {
  typedAttribute(name, AttributeProto::FLOAT, "a float");
}

bool NodeInference::intsAttribute(StringRef name,
                                  SmallVectorImpl<int64_t> &values) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::INTS, "a list of integers");
  if (!found)
    return false;
  values.assign(found->ints().begin(), found->ints().end());
  return true;
}

StringRef NodeInference::stringAttribute(StringRef name,
                                         StringRef defaultValue) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::STRING, "a string");
  return found ? StringRef(found->s()) : defaultValue;
}

const TensorProto *NodeInference::tensorAttribute(StringRef name) {
  const AttributeProto *found =
      typedAttribute(name, AttributeProto::TENSOR, "a tensor");
  return found ? &found->t() : nullptr;
}

namespace {
/// All rules, by domain and op.
class Table {
public:
  Table() {
    for (ArrayRef<InferenceRule> rules :
         {elementwiseRules(), normRules(), layoutRules(), indexingRules(),
          creationRules(), productRules(), sequenceRules(), collectiveRules()})
      for (const InferenceRule &rule : rules)
        for (const char *op : rule.ops)
          domains[rule.domain][op] = rule.function;
  }

  InferFn find(StringRef domain, StringRef opType) const {
    auto ops = domains.find(domain);
    return ops == domains.end() ? nullptr : ops->second.lookup(opType);
  }

private:
  llvm::StringMap<llvm::StringMap<InferFn>> domains;
};
} // namespace

InferFn mlir::tandem::onnx::findInference(StringRef domain, StringRef opType) {
  static const Table table;
  return table.find(domain, opType);
}
