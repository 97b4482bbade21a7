//===- NodeOrder.cpp - The order of the nodes of a graph ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include <queue>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

/// Calls `use` for each name that the bodies of `node` take from the graphs
/// around them.
void GraphImporter::collectCaptures(const NodeProto &node,
                                    llvm::function_ref<void(StringRef)> use) {
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      collectGraphCaptures(attribute.g(), use);
    for (const GraphProto &graph : attribute.graphs())
      collectGraphCaptures(graph, use);
  }
}

void GraphImporter::collectGraphCaptures(
    const GraphProto &graph, llvm::function_ref<void(StringRef)> use) {
  llvm::DenseSet<StringRef> local;
  for (const ValueInfoProto &input : graph.input())
    local.insert(input.name());
  for (const TensorProto &tensor : graph.initializer())
    local.insert(tensor.name());
  for (const SparseTensorProto &tensor : graph.sparse_initializer())
    local.insert(tensor.values().name());
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      local.insert(output);
  auto useOuter = [&](StringRef name) {
    if (!name.empty() && !local.contains(name))
      use(name);
  };
  for (const NodeProto &node : graph.node()) {
    for (const std::string &input : node.input())
      useOuter(input);
    collectCaptures(node, useOuter);
  }
  for (const ValueInfoProto &output : graph.output())
    useOuter(output.name());
}

bool GraphImporter::sortNodes(
    const Scope &scope, const Nodes &nodes,
    ArrayRef<std::pair<int64_t, int64_t>> dependencies,
    std::vector<int64_t> &order) {
  int64_t count = nodes.size();
  // users[firstUser[i] .. firstUser[i + 1]) wait for node i.
  std::vector<size_t> firstUser(count + 1, 0);
  std::vector<int64_t> users(dependencies.size()), waitsFor(count, 0);
  for (auto [user, definition] : dependencies) {
    ++firstUser[definition + 1];
    ++waitsFor[user];
  }
  for (int64_t i = 0; i != count; ++i)
    firstUser[i + 1] += firstUser[i];
  std::vector<size_t> next(firstUser.begin(), firstUser.end() - 1);
  for (auto [user, definition] : dependencies)
    users[next[definition]++] = user;

  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>>
      ready;
  for (int64_t i = 0; i != count; ++i)
    if (waitsFor[i] == 0)
      ready.push(i);
  order.clear();
  while (!ready.empty()) {
    int64_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (size_t i = firstUser[node]; i != firstUser[node + 1]; ++i)
      if (--waitsFor[users[i]] == 0)
        ready.push(users[i]);
  }
  if (static_cast<int64_t>(order.size()) == count)
    return true;

  // Every node that is left waits for another one that is left, so going back
  // ends in a cycle.
  std::vector<int64_t> waitedFor(count, -1);
  for (auto [user, definition] : dependencies)
    if (waitsFor[user] > 0 && waitsFor[definition] > 0)
      waitedFor[user] = definition;
  int64_t node = 0;
  while (waitsFor[node] == 0)
    ++node;
  std::vector<int64_t> step(count, -1), path;
  while (step[node] < 0) {
    step[node] = static_cast<int64_t>(path.size());
    path.push_back(node);
    node = waitedFor[node];
  }
  std::string names;
  ArrayRef<int64_t> cycle = ArrayRef<int64_t>(path).drop_front(step[node]);
  for (int64_t member : cycle.take_front(8))
    names += (names.empty() ? "" : ", ") + describe(nodes[member], member,
                                                    nodes[member].op_type(),
                                                    Scope(scope.callLocation));
  if (cycle.size() > 8)
    names += ", ...";
  graphError(scope, "the graph has a cycle of " + Twine(cycle.size()) +
                        (cycle.size() == 1 ? " node" : " nodes") + ": " +
                        names);
  return false;
}

void GraphImporter::importInScope(Scope &scope, const NodeProto &node,
                                  int64_t index, ArrayRef<Slot *> inputs,
                                  ArrayRef<Slot *> outputs) {
  importNode(scope, node, index, inputs, outputs);
  ValueNames &names = node.op_type() == "Constant" && node.domain().empty()
                          ? scope.constants
                          : scope.values;
  for (const Slot *slot : outputs)
    if (slot)
      names.add(slot->nameAttr ? slot->nameAttr
                               : builder.getStringAttr(slot->name),
                slot->declared);
}

void GraphImporter::importNodes(Scope &scope, const Nodes &nodes) {
  scope.names.reserve(scope.names.size() + nodes.size());
  // A name of the graph around may turn out to be one of this graph.
  int64_t first = scope.parent ? 0 : importSortedNodes(scope, nodes);
  if (first != nodes.size() && !hasGivenUp())
    importUnsortedNodes(scope, nodes, first);
}

int64_t GraphImporter::importSortedNodes(Scope &scope, const Nodes &nodes) {
  SmallVector<Slot *, 8> inputs, outputs;
  for (const auto &[position, node] : llvm::enumerate(nodes)) {
    int64_t index = static_cast<int64_t>(position);
    if (hasGivenUp())
      return index;
    inputs.clear();
    bool isReady = true;
    for (const std::string &input : node.input()) {
      inputs.push_back(input.empty() ? nullptr : lookup(scope, input));
      isReady &= inputs.back() || input.empty();
    }
    collectCaptures(node, [&](StringRef name) {
      isReady &= lookup(scope, name) != nullptr;
    });
    if (!isReady)
      return index;
    outputs.clear();
    for (const std::string &output : node.output())
      outputs.push_back(output.empty() ? nullptr
                                       : define(scope, output, index));
    importInScope(scope, node, index, inputs, outputs);
  }
  return nodes.size();
}

void GraphImporter::importUnsortedNodes(Scope &scope, const Nodes &nodes,
                                        int64_t first) {
  // Definitions first, because nodes may come in any order.
  size_t count = static_cast<size_t>(nodes.size() - first);
  std::vector<Slot *> outputs, inputs;
  std::vector<size_t> firstOutput, firstInput;
  outputs.reserve(count);
  firstOutput.reserve(count + 1);
  firstInput.reserve(count + 1);
  for (int64_t index = first, e = nodes.size(); index != e; ++index) {
    firstOutput.push_back(outputs.size());
    for (const std::string &output : nodes[static_cast<int>(index)].output())
      outputs.push_back(output.empty() ? nullptr
                                       : define(scope, output, index));
  }
  firstOutput.push_back(outputs.size());

  inputs.reserve(3 * count);
  std::vector<std::pair<int64_t, int64_t>> dependencies;
  bool isSorted = true;
  auto depend = [&](int64_t user, const Slot *slot) {
    if (!slot || slot->owner != &scope || slot->definition < first)
      return;
    dependencies.emplace_back(user, slot->definition);
    isSorted &= slot->definition < user;
  };
  for (int64_t index = first, e = nodes.size(); index != e; ++index) {
    const NodeProto &node = nodes[static_cast<int>(index)];
    firstInput.push_back(inputs.size());
    for (const auto &[position, input] : llvm::enumerate(node.input())) {
      Slot *slot = input.empty() ? nullptr : lookup(scope, input);
      inputs.push_back(slot);
      depend(index, slot);
      if (!slot && !input.empty() && mayReport())
        emitError(
            FileLineColLoc::get(fileName, static_cast<unsigned>(index + 1), 1))
            << describe(node, index, kindOf(node).spelling, scope) << ": input "
            << position << " '" << input << "' is not defined anywhere";
    }
    collectCaptures(
        node, [&](StringRef name) { depend(index, lookup(scope, name)); });
  }
  firstInput.push_back(inputs.size());

  std::vector<int64_t> order;
  if (!isSorted && !sortNodes(scope, nodes, dependencies, order))
    return;
  auto of = [&](ArrayRef<Slot *> slots, ArrayRef<size_t> starts, size_t at) {
    return slots.slice(starts[at], starts[at + 1] - starts[at]);
  };
  for (int64_t i = first, e = nodes.size(); i != e && !hasGivenUp(); ++i) {
    // The nodes before `first` come first in any order.
    int64_t index = isSorted ? i : order[static_cast<size_t>(i)];
    size_t at = static_cast<size_t>(index - first);
    importInScope(scope, nodes[static_cast<int>(index)], index,
                  of(inputs, firstInput, at), of(outputs, firstOutput, at));
  }
}
