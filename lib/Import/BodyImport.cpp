//===- BodyImport.cpp - Bodies of control flow to regions -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

std::unique_ptr<Region>
GraphImporter::importBody(NodeState &node, const GraphProto &graph,
                          StringRef attributeName, ArrayRef<ValueInfo> given,
                          bool checkCount,
                          SmallVectorImpl<ValueInfo> &results) {
  auto region = std::make_unique<Region>();
  if (node.scope.depth >= kMaxDepth) {
    nodeError(node, "bodies and functions are nested more than " +
                        Twine(kMaxDepth) + " deep");
    return region;
  }
  BlockState target;
  target.block = new Block();
  region->push_back(target.block);
  Scope scope(node.scope.callLocation);
  scope.parent = &node.scope;
  scope.callAttributes = node.scope.callAttributes;
  scope.prefix = node.scope.prefix;
  scope.depth = node.scope.depth + 1;
  scope.target = &target;
  scope.where = (" in " + attributeName + " of " +
                 describe(node.proto, node.index, "", node.scope))
                    .str();
  if (!charge(1024))
    return region;

  llvm::StringSet<> initializers, inputs;
  for (const TensorProto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  for (const SparseTensorProto &tensor : graph.sparse_initializer())
    initializers.insert(tensor.values().name());
  declare(scope, graph);
  size_t position = 0;
  for (const ValueInfoProto &input : graph.input()) {
    bool isFed = position < given.size();
    if (!isFed && initializers.contains(input.name())) {
      slotFor(scope, input.name())->isInterface = true;
      continue;
    }
    Slot *slot = define(scope, input.name(), Slot::kInput);
    if (slot) {
      inputs.insert(input.name());
      std::string error;
      ValueInfo info = isFed ? given[position] : ValueInfo();
      if (input.has_type()) {
        ValueInfo declared;
        if (!convertType(input.type(), declared, error))
          graphError(scope, "body input '" + input.name() + "' " + error);
        else if (mergeDeclared(info, declared) == MergeResult::Contradiction)
          graphError(scope, "body input '" + input.name() +
                                "' is declared as " + print(declared) +
                                ", but is fed " + print(info));
        else
          noteType(scope, input.type(), declared, info);
      }
      if (!checkSize(info, error)) {
        graphError(scope, "body input '" + input.name() + "' " + error);
        info = ValueInfo();
      }
      slot->info = std::move(info);
      slot->value = target.block->addArgument(
          typeOf(slot->info),
          NameLoc::get(builder.getStringAttr(scope.prefix + input.name()),
                       node.location));
    }
    ++position;
  }
  if (checkCount && position != given.size())
    nodeError(node, attributeName + " has " + Twine(position) +
                        " inputs, but the node feeds " + Twine(given.size()));

  importInitializers(scope, graph, inputs);
  importNodes(scope, graph.node());
  node.bodies.push_back(bodyAttributes(scope, graph));
  SmallVector<Value> yielded;
  for (const ValueInfoProto &output : graph.output()) {
    Slot *slot = lookup(scope, output.name());
    if (!slot)
      graphError(scope,
                 "output '" + output.name() + "' is not computed by any node");
    results.push_back(slot ? slot->info : ValueInfo());
    yielded.push_back(valueOf(scope, slot));
  }
  Attributes attributes;
  createOp(scope, node.location, yieldOp, {}, yielded, attributes);
  return region;
}

/// What the exporter needs of a body beside its nodes.
DictionaryAttr GraphImporter::bodyAttributes(Scope &scope,
                                             const GraphProto &graph) {
  NamedAttrList attributes;
  if (graph.has_name())
    attributes.set("name", builder.getStringAttr(graph.name()));
  if (graph.has_doc_string())
    attributes.set("doc_string", builder.getStringAttr(graph.doc_string()));
  SmallVector<Attribute> inputs, dims;
  bool hasDims = false;
  for (const ValueInfoProto &input : graph.input()) {
    const Slot *slot = lookup(scope, input.name());
    if (!slot || slot->owner != &scope || slot->definition != Slot::kInput)
      continue;
    inputs.push_back(builder.getStringAttr(scope.prefix + input.name()));
    scratch.clear();
    appendDimParams(slot->info, scratch);
    hasDims |= !scratch.empty();
    dims.push_back(builder.getStringAttr(scratch));
  }
  if (!inputs.empty())
    attributes.set("inputs", builder.getArrayAttr(inputs));
  if (hasDims)
    attributes.set("dim_params", builder.getArrayAttr(dims));
  if (DictionaryAttr declared = declaredValues(scope, graph))
    attributes.set("value_info", declared);
  keepValues(scope, graph, /*isBody=*/true, attributes);
  return attributes.getDictionary(context);
}

/// What is still known of a value that an iteration replaces.
static ValueInfo loopCarried(const ValueInfo &info) {
  ValueInfo result;
  result.kind = info.kind;
  result.dataType = info.dataType;
  result.spelling = info.spelling;
  if (info.element)
    result.element = std::make_shared<ValueInfo>(loopCarried(*info.element));
  return result;
}

/// A copy without what is known of the elements.
static ValueInfo typeOnly(ValueInfo info) {
  info.elements = nullptr;
  info.constant = nullptr;
  return info;
}

bool GraphImporter::importRegions(
    NodeState &node, SmallVectorImpl<std::unique_ptr<Region>> &regions,
    Attributes &attributes) {
  auto find = [&](StringRef name) -> const GraphProto * {
    for (const AttributeProto *attribute : node.attributes)
      if (attribute->name() == name &&
          attribute->type() == AttributeProto::GRAPH)
        return &attribute->g();
    nodeError(node, "attribute '" + name + "' must be a graph");
    return nullptr;
  };
  auto inputInfo = [&](size_t index) {
    return index < node.inputs.size() && node.inputs[index]
               ? node.inputs[index]->info
               : ValueInfo();
  };
  size_t numOutputs = node.infos.size();
  auto countResults = [&](StringRef name, size_t given, size_t wanted) {
    if (given == wanted)
      return true;
    nodeError(node, name + " has " + Twine(given) +
                        " outputs, but the node needs " + Twine(wanted));
    return false;
  };

  switch (node.kind.special) {
  case OpKind::If: {
    const GraphProto *thenGraph = find("then_branch"),
                     *elseGraph = find("else_branch");
    if (!thenGraph || !elseGraph)
      return false;
    SmallVector<ValueInfo> thenResults, elseResults;
    regions.push_back(
        importBody(node, *thenGraph, "then_branch", {}, true, thenResults));
    regions.push_back(
        importBody(node, *elseGraph, "else_branch", {}, true, elseResults));
    if (!countResults("then_branch", thenResults.size(), numOutputs) ||
        !countResults("else_branch", elseResults.size(), numOutputs))
      return false;
    for (size_t i = 0; i != numOutputs; ++i)
      node.infos[i] = joinValues(thenResults[i], elseResults[i]);
    return true;
  }
  case OpKind::Loop: {
    const GraphProto *body = find("body");
    if (!body)
      return false;
    // Inputs: trip count, condition, carried values. The body's: iteration,
    // condition, carried values.
    SmallVector<ValueInfo> given = {ValueInfo::tensor(TensorProto::INT64),
                                    ValueInfo::tensor(TensorProto::BOOL)};
    for (size_t i = 2; i < node.inputs.size(); ++i)
      given.push_back(loopCarried(inputInfo(i)));
    size_t numCarried = given.size() - 2;
    SmallVector<ValueInfo> results;
    regions.push_back(importBody(node, *body, "body", given, true, results));
    if (!countResults("body", results.size(), numOutputs + 1) ||
        numCarried > numOutputs)
      return false;
    for (size_t i = 0; i != numOutputs; ++i) {
      ValueInfo &result = results[i + 1];
      if (i < numCarried) {
        node.infos[i] = joinValues(inputInfo(i + 2), result);
      } else {
        node.infos[i] = typeOnly(result);
        if (node.infos[i].isRanked())
          node.infos[i].dims.insert(node.infos[i].dims.begin(), SymInt());
      }
    }
    return true;
  }
  case OpKind::Scan: {
    const GraphProto *body = find("body");
    if (!body)
      return false;
    int64_t numScanned = 0;
    for (const AttributeProto *attribute : node.attributes)
      if (attribute->name() == "num_scan_inputs" &&
          attribute->type() == AttributeProto::INT)
        numScanned = attribute->i();
    // Opset 8 had an optional first input and a batch dimension; its types are
    // left to the model.
    bool isBatched = opsets.lookup("") < 9;
    size_t first = isBatched && !node.inputs.empty() ? 1 : 0;
    size_t numFed = node.inputs.size() - first;
    if (numScanned < 0 || static_cast<size_t>(numScanned) > numFed) {
      nodeError(node, "attribute 'num_scan_inputs' is " + Twine(numScanned) +
                          ", but the node has " + Twine(numFed) + " inputs");
      return false;
    }
    size_t numStates = numFed - static_cast<size_t>(numScanned);
    SmallVector<ValueInfo> given;
    for (size_t i = 0; i != numFed; ++i)
      given.push_back(loopCarried(inputInfo(i + first)));
    SmallVector<ValueInfo> results;
    regions.push_back(importBody(node, *body, "body", given, true, results));
    if (!countResults("body", results.size(), numOutputs))
      return false;
    for (size_t i = 0; i != numOutputs; ++i) {
      node.infos[i] = loopCarried(results[i]);
      if (!isBatched && i < numStates)
        node.infos[i] = joinValues(inputInfo(i), results[i]);
      else if (!isBatched && results[i].isRanked())
        node.infos[i].setDims(SymInts(results[i].rank() + 1));
    }
    return true;
  }
  case OpKind::Plain:
  case OpKind::Constant:
    break;
  }

  SmallVector<Attribute> names;
  for (const AttributeProto *attribute : node.attributes) {
    SmallVector<const GraphProto *> graphs;
    if (attribute->type() == AttributeProto::GRAPH)
      graphs.push_back(&attribute->g());
    for (const GraphProto &graph : attribute->graphs())
      graphs.push_back(&graph);
    for (const GraphProto *graph : graphs) {
      SmallVector<ValueInfo> results;
      regions.push_back(
          importBody(node, *graph, attribute->name(), {}, false, results));
      names.push_back(builder.getStringAttr(attribute->name()));
    }
    if (attribute->type() == AttributeProto::GRAPHS &&
        attribute->graphs_size() < 2)
      addKind(node, attribute->name(), attribute->type());
  }
  if (!names.empty())
    attributes.emplace_back(regionsName, builder.getArrayAttr(names));
  return true;
}
