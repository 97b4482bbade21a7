//===- NodeOrder.cpp - The order of the nodes of a graph ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"
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
    const Scope &scope, ArrayRef<const NodeProto *> nodes, int64_t first,
    ArrayRef<std::pair<int64_t, int64_t>> dependencies,
    std::vector<int64_t> &order) {
  int64_t count = static_cast<int64_t>(nodes.size());
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
    names += (names.empty() ? "" : ", ") +
             describe(*nodes[member], first + member, nodes[member]->op_type(),
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
  ValueNames &names = node.op_type() == "Constant" && hasPlainDomain(node)
                          ? scope.constants
                          : scope.values;
  for (const Slot *slot : outputs)
    if (slot)
      noteValue(scope, names,
                slot->nameAttr ? slot->nameAttr
                               : builder.getStringAttr(slot->name),
                *slot);
}

void GraphImporter::importNodes(Scope &scope, const Nodes &nodes) {
  scope.names.reserve(scope.names.size() + nodes.size());
  auto read = [&](int64_t index) { return &nodes[static_cast<int>(index)]; };
  // A name of the graph around may turn out to be one of this graph.
  int64_t first = scope.parent ? 0
                               : importSortedNodes(scope, nodes.size(), read,
                                                   /*keepsNames=*/true);
  std::vector<const NodeProto *> rest;
  for (int64_t index = first; index != nodes.size(); ++index)
    rest.push_back(read(index));
  importUnsortedNodes(scope, rest, first);
}

bool GraphImporter::importNodes(Scope &scope, NodeReader &nodes) {
  scope.names.reserve(scope.names.size() + nodes.size());
  int64_t first = importSortedNodes(
      scope, nodes.size(), [&](int64_t index) { return nodes.read(index); },
      /*keepsNames=*/false);
  std::vector<const NodeProto *> rest;
  for (int64_t index = first; index != nodes.size() && !hasGivenUp(); ++index) {
    rest.push_back(nodes.readToStay(index));
    if (!rest.back()) {
      modelError("the file is damaged or not an ONNX model: protobuf cannot "
                 "parse node #" +
                 Twine(index));
      return false;
    }
  }
  importUnsortedNodes(scope, rest, first);
  return true;
}

int64_t GraphImporter::importSortedNodes(
    Scope &scope, int64_t count,
    llvm::function_ref<const NodeProto *(int64_t)> read, bool keepsNames) {
  SmallVector<Slot *, 8> inputs, outputs;
  for (int64_t index = 0; index != count; ++index) {
    const NodeProto *node = hasGivenUp() ? nullptr : read(index);
    if (!node)
      return index;
    inputs.clear();
    bool isReady = true;
    for (const std::string &input : node->input()) {
      inputs.push_back(input.empty() ? nullptr : lookup(scope, input));
      isReady &= inputs.back() || input.empty();
    }
    collectCaptures(*node, [&](StringRef name) {
      isReady &= lookup(scope, name) != nullptr;
    });
    if (!isReady)
      return index;
    outputs.clear();
    for (const std::string &output : node->output()) {
      StringAttr name = keepsNames || output.empty()
                            ? StringAttr()
                            : builder.getStringAttr(output);
      outputs.push_back(output.empty()
                            ? nullptr
                            : define(scope,
                                     name ? name.getValue() : StringRef(output),
                                     index));
      if (outputs.back() && name)
        outputs.back()->nameAttr = name;
    }
    importInScope(scope, *node, index, inputs, outputs);
  }
  return count;
}

void GraphImporter::importUnsortedNodes(Scope &scope,
                                        ArrayRef<const NodeProto *> nodes,
                                        int64_t first) {
  // Definitions first, because nodes may come in any order.
  std::vector<Slot *> outputs, inputs;
  std::vector<size_t> firstOutput, firstInput;
  outputs.reserve(nodes.size());
  firstOutput.reserve(nodes.size() + 1);
  firstInput.reserve(nodes.size() + 1);
  for (const auto &[at, node] : llvm::enumerate(nodes)) {
    firstOutput.push_back(outputs.size());
    for (const std::string &output : node->output())
      outputs.push_back(
          output.empty()
              ? nullptr
              : define(scope, output, first + static_cast<int64_t>(at)));
  }
  firstOutput.push_back(outputs.size());

  inputs.reserve(3 * nodes.size());
  std::vector<std::pair<int64_t, int64_t>> dependencies;
  bool isSorted = true;
  auto depend = [&](int64_t user, const Slot *slot) {
    if (!slot || slot->owner != &scope || slot->definition < first)
      return;
    dependencies.emplace_back(user, slot->definition - first);
    isSorted &= slot->definition - first < user;
  };
  for (const auto &[at, node] : llvm::enumerate(nodes)) {
    int64_t user = static_cast<int64_t>(at), index = first + user;
    firstInput.push_back(inputs.size());
    for (const auto &[position, input] : llvm::enumerate(node->input())) {
      Slot *slot = input.empty() ? nullptr : lookup(scope, input);
      inputs.push_back(slot);
      depend(user, slot);
      if (!slot && !input.empty() && mayReport())
        emitError(
            FileLineColLoc::get(fileName, static_cast<unsigned>(index + 1), 1))
            << describe(*node, index, kindOf(*node).spelling, scope)
            << ": input " << position << " '" << input
            << "' is not defined anywhere";
    }
    collectCaptures(*node,
                    [&](StringRef name) { depend(user, lookup(scope, name)); });
  }
  firstInput.push_back(inputs.size());

  std::vector<int64_t> order;
  if (!isSorted && !sortNodes(scope, nodes, first, dependencies, order))
    return;
  auto of = [](ArrayRef<Slot *> slots, ArrayRef<size_t> starts, size_t at) {
    return slots.slice(starts[at], starts[at + 1] - starts[at]);
  };
  for (size_t i = 0; i != nodes.size() && !hasGivenUp(); ++i) {
    size_t at = isSorted ? i : static_cast<size_t>(order[i]);
    importInScope(scope, *nodes[at], first + static_cast<int64_t>(at),
                  of(inputs, firstInput, at), of(outputs, firstOutput, at));
  }
}
