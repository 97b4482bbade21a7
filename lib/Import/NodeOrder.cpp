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

void GraphImporter::importNodes(Scope &scope, const Nodes &nodes) {
  // Definitions first, because nodes may come in any order.
  std::vector<Slot *> outputs, inputs;
  std::vector<size_t> firstOutput, firstInput;
  outputs.reserve(nodes.size());
  firstOutput.reserve(nodes.size() + 1);
  firstInput.reserve(nodes.size() + 1);
  scope.names.reserve(scope.names.size() + nodes.size());
  for (const auto &[index, node] : llvm::enumerate(nodes)) {
    firstOutput.push_back(outputs.size());
    for (const std::string &output : node.output())
      outputs.push_back(
          output.empty() ? nullptr
                         : define(scope, output, static_cast<int64_t>(index)));
  }
  firstOutput.push_back(outputs.size());

  inputs.reserve(3 * static_cast<size_t>(nodes.size()));
  bool isSorted = true;
  auto isLocal = [&](const Slot *slot) {
    return slot && slot->owner == &scope && slot->definition >= 0;
  };
  for (const auto &[index, node] : llvm::enumerate(nodes)) {
    firstInput.push_back(inputs.size());
    int64_t user = static_cast<int64_t>(index);
    for (const auto &[position, input] : llvm::enumerate(node.input())) {
      Slot *slot = input.empty() ? nullptr : lookup(scope, input);
      inputs.push_back(slot);
      isSorted &= !isLocal(slot) || slot->definition < user;
      if (!slot && !input.empty() && mayReport())
        emitError(
            FileLineColLoc::get(fileName, static_cast<unsigned>(index + 1), 1))
            << describe(node, user, kindOf(node).spelling, scope) << ": input "
            << position << " '" << input << "' is not defined anywhere";
    }
    collectCaptures(node, [&](StringRef name) {
      Slot *slot = lookup(scope, name);
      isSorted &= !isLocal(slot) || slot->definition < user;
    });
  }
  firstInput.push_back(inputs.size());

  std::vector<int64_t> order;
  if (!isSorted) {
    std::vector<std::pair<int64_t, int64_t>> dependencies;
    for (int64_t user = 0, e = nodes.size(); user != e; ++user) {
      for (size_t i = firstInput[user]; i != firstInput[user + 1]; ++i)
        if (isLocal(inputs[i]))
          dependencies.emplace_back(user, inputs[i]->definition);
      collectCaptures(nodes[static_cast<int>(user)], [&](StringRef name) {
        if (Slot *slot = lookup(scope, name); isLocal(slot))
          dependencies.emplace_back(user, slot->definition);
      });
    }
    if (!sortNodes(scope, nodes, dependencies, order))
      return;
  }
  for (int64_t i = 0, e = nodes.size(); i != e; ++i) {
    int64_t index = isSorted ? i : order[i];
    if (failedBudget || numErrors > options.maxErrors)
      return;
    importNode(
        scope, nodes[static_cast<int>(index)], index,
        ArrayRef<Slot *>(inputs).slice(
            firstInput[index], firstInput[index + 1] - firstInput[index]),
        ArrayRef<Slot *>(outputs).slice(
            firstOutput[index], firstOutput[index + 1] - firstOutput[index]));
  }
}
