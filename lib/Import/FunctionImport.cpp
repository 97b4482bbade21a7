//===- FunctionImport.cpp - Calls of model-local functions ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

static constexpr size_t kMaxPrefixLength = 256;

void mlir::tandem::onnx::kindKey(StringRef domain, StringRef name,
                                 StringRef overload,
                                 SmallVectorImpl<char> &key) {
  for (StringRef part : {canonicalDomain(domain), name, overload}) {
    key.append(part.begin(), part.end());
    key.push_back('\0');
  }
}

bool GraphImporter::collectFunctions() {
  for (const FunctionProto &function : model.functions()) {
    SmallString<64> key;
    kindKey(function.domain(), function.name(), function.overload(), key);
    std::string spelling =
        domainName(canonicalDomain(function.domain())) + "::" + function.name();
    if (!functions.try_emplace(key, &function).second) {
      modelError("function '" + spelling + "' is defined twice");
      return false;
    }
    if (!addOpsets(function.opset_import(), "function '" + spelling + "'"))
      return false;
  }
  return true;
}

void GraphImporter::inlineFunction(NodeState &node) {
  const FunctionProto &function = *node.kind.function;
  auto refuse = [&](const Twine &why) {
    nodeError(node, why);
    abandon(node);
  };
  if (llvm::is_contained(activeCalls, &function))
    return refuse("the function calls itself");
  if (node.scope.depth >= kMaxDepth)
    return refuse("bodies and functions are nested more than " +
                  Twine(kMaxDepth) + " deep");
  if (static_cast<int>(node.inputs.size()) > function.input_size() ||
      static_cast<int>(node.outputs.size()) > function.output_size())
    return refuse("the function has " + Twine(function.input_size()) +
                  " inputs and " + Twine(function.output_size()) +
                  " outputs, but the node has " + Twine(node.inputs.size()) +
                  " and " + Twine(node.outputs.size()));

  CallAttributes callAttributes;
  for (const AttributeProto &attribute : function.attribute_proto())
    callAttributes[attribute.name()] = &attribute;
  for (const AttributeProto *attribute : node.attributes)
    callAttributes[attribute->name()] = attribute;

  Scope scope(node.location);
  scope.callAttributes = &callAttributes;
  scope.depth = node.scope.depth + 1;
  scope.target = node.scope.target;
  scope.where = (" in function '" + node.kind.spelling + "' called by " +
                 describe(node.proto, node.index, "", node.scope));
  // Values of a body get the call's name in front, as they must differ from
  // call to call.
  scope.prefix = node.scope.prefix;
  scope.prefix +=
      node.proto.name().empty()
          ? (node.proto.op_type() + "_" + llvm::utostr(nextUnique++))
          : node.proto.name();
  scope.prefix += '/';
  if (scope.prefix.size() > kMaxPrefixLength)
    scope.prefix = "call_" + llvm::utostr(nextUnique++) + "/";

  for (int i = 0; i != function.input_size(); ++i) {
    Slot *slot = define(scope, function.input(i), Slot::kInput);
    if (!slot)
      return abandon(node);
    const Slot *argument =
        i < static_cast<int>(node.inputs.size()) ? node.inputs[i] : nullptr;
    slot->isAbsent = !argument || argument->isAbsent;
    if (!slot->isAbsent) {
      slot->value = argument->value;
      slot->info = argument->info;
    }
  }
  declare(scope, function.value_info());
  for (size_t i = 0; i != node.outputs.size(); ++i) {
    if (!node.outputs[i])
      continue;
    StringRef name = function.output(static_cast<int>(i));
    scope.renamed.try_emplace(
        name, outputName(node.scope, node.outputs[i]->name).getValue());
    Slot *slot = slotFor(scope, name);
    if (!slot->declared)
      slot->declared = node.outputs[i]->declared;
  }

  activeCalls.push_back(&function);
  importNodes(scope, function.node());
  activeCalls.pop_back();
  if (failedBudget)
    return;
  for (size_t i = 0; i != node.outputs.size(); ++i) {
    if (!node.outputs[i])
      continue;
    Slot *slot = lookup(scope, function.output(static_cast<int>(i)));
    if (!slot)
      nodeError(node, "the function's output '" +
                          function.output(static_cast<int>(i)) +
                          "' is not computed by any of its nodes");
    node.outputs[i]->value = valueOf(node.scope, slot);
    if (slot)
      node.outputs[i]->info = slot->info;
  }
}
