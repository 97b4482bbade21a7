//===- DeclaredValues.cpp - What a graph says of its values ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types in a graph's value_info and outputs are merged into what is
// inferred. What the exporter could not tell from the result is kept for it.
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"
#include "GraphImporter.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

void GraphImporter::declare(Scope &scope, const ValueInfos &infos) {
  for (const ValueInfoProto &info : infos)
    if (info.has_type() && !info.name().empty())
      slotFor(scope, info.name())->declared = &info.type();
}

void GraphImporter::declare(Scope &scope, const GraphProto &graph) {
  scope.infos = &graph.value_info();
  declare(scope, graph.value_info());
  declare(scope, graph.output());
  for (const ValueInfoProto &output : graph.output())
    if (!output.name().empty())
      slotFor(scope, output.name())->isInterface = true;
}

void GraphImporter::noteValue(Scope &scope, ValueNames &names, StringAttr name,
                              const Slot &slot) {
  names.add(name, slot.declared);
  if (!scope.infos || !slot.declared || slot.isInterface)
    return;
  if (scope.nextInfo < scope.infos->size() &&
      &(*scope.infos)[scope.nextInfo].type() == slot.declared)
    ++scope.nextInfo;
  else
    scope.hasOrderedInfos = false;
}

void GraphImporter::noteType(Scope &scope, const TypeProto &type,
                             const ValueInfo &declared, const ValueInfo &info) {
  if (scope.infos && !isSameType(declared, info))
    scope.otherTypes.insert(&type);
}

void GraphImporter::noteType(Scope &scope, const TypeProto &type,
                             const ValueInfo &info) {
  ValueInfo declared;
  std::string error;
  if (!convertType(type, declared, error))
    scope.otherTypes.insert(&type);
  else
    noteType(scope, type, declared, info);
}

/// Which values of `graph` have a value_info, for the exporter. Most graphs
/// declare all of a kind or none, so it is the kinds that are mostly declared
/// and the names of those values that differ. Null if all are declared.
DictionaryAttr GraphImporter::declaredValues(Scope &scope,
                                             const GraphProto &graph) {
  llvm::SmallDenseSet<StringAttr, 8> interface;
  for (const auto *values : {&graph.input(), &graph.output()})
    for (const ValueInfoProto &value : *values)
      interface.insert(builder.getStringAttr(value.name()));
  SmallVector<Attribute> names, exceptions;
  bool isComplete = true;
  for (ValueNames *values :
       {&scope.values, &scope.constants, &scope.initializers}) {
    for (auto *list : {&values->declared, &values->others})
      llvm::erase_if(*list,
                     [&](StringAttr name) { return interface.contains(name); });
    bool isDeclared = values->declared.size() >= values->others.size();
    isComplete &= values->others.empty();
    if (isDeclared)
      names.push_back(builder.getStringAttr(values->kind));
    llvm::append_range(exceptions,
                       isDeclared ? values->others : values->declared);
  }
  if (isComplete)
    return {};
  NamedAttrList result;
  result.set("declared", builder.getArrayAttr(names));
  if (!exceptions.empty())
    result.set("except", builder.getArrayAttr(exceptions));
  return result.getDictionary(context);
}

/// Adds to `attributes` what else the exporter needs of the values of `graph`,
/// whose nodes have been imported into `scope`.
void GraphImporter::keepValues(Scope &scope, const GraphProto &graph,
                               bool isBody, NamedAttrList &attributes) {
  auto ownSlot = [&](const std::string &name) -> const Slot * {
    auto entry = scope.names.find(llvm::CachedHashStringRef(name));
    return entry != scope.names.end() &&
                   entry->second->definition != Slot::kUndefined
               ? entry->second
               : nullptr;
  };
  // Of outputs that no node computes only the value's own type is in the IR.
  for (const ValueInfoProto &output : graph.output()) {
    const Slot *slot = lookup(scope, output.name());
    if (slot && output.has_type() &&
        (slot->owner != &scope || slot->definition < 0))
      noteType(scope, output.type(), slot->info);
  }

  // Entries that are not of values computed here, and the order, if it is not
  // that of the nodes.
  GraphProto others;
  bool isUsual =
      scope.hasOrderedInfos && scope.nextInfo == graph.value_info_size();
  llvm::StringSet<> interface;
  SmallVector<Attribute> order;
  if (!isUsual) {
    for (const auto *values : {&graph.input(), &graph.output()})
      for (const ValueInfoProto &value : *values)
        interface.insert(value.name());
    for (const ValueInfoProto &value : graph.value_info())
      order.push_back(builder.getStringAttr(value.name()));
    attributes.set("value_info_order", builder.getArrayAttr(order));
  }
  auto isOther = [&](const ValueInfoProto &value) {
    return !isUsual &&
           (interface.contains(value.name()) || !ownSlot(value.name()));
  };
  if (!isUsual)
    for (const ValueInfoProto &value : graph.value_info())
      if (isOther(value))
        *others.add_value_info() = value;

  // Inputs of a body that nothing feeds are constants if they have a value, and
  // those that are fed do not need theirs.
  if (isBody) {
    bool hasConstants = false;
    for (const ValueInfoProto &input : graph.input()) {
      const Slot *slot = ownSlot(input.name());
      ValueInfoProto &kept = *others.add_input();
      kept.set_name(input.name());
      if (!slot || slot->definition != Slot::kInitializer)
        continue;
      kept = input;
      hasConstants = true;
    }
    if (!hasConstants)
      others.clear_input();
    for (const TensorProto &tensor : graph.initializer())
      if (const Slot *slot = ownSlot(tensor.name());
          slot && slot->definition == Slot::kInput)
        *others.add_initializer() = tensor;
    for (const SparseTensorProto &tensor : graph.sparse_initializer())
      if (const Slot *slot = ownSlot(tensor.values().name());
          slot && slot->definition == Slot::kInput)
        *others.add_sparse_initializer() = tensor;
    file.restore(others);
  }
  if (uint64_t size = others.ByteSizeLong(); size != 0 && charge(size))
    attributes.set("other_values",
                   builder.getStringAttr(others.SerializeAsString()));

  auto keepsType = [&](const ValueInfoProto &value) {
    return scope.otherTypes.contains(&value.type());
  };
  if (std::string extra = graphExtras(graph, isBody, keepsType, isOther);
      !extra.empty())
    attributes.set(isBody ? "extra" : "graph_extra",
                   builder.getStringAttr(extra));
}
