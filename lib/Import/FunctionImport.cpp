//===- FunctionImport.cpp - Calls of model-local functions ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"
#include "GraphImporter.h"

#include "mlir/IR/AsmState.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/CallBody.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "llvm/ADT/SmallPtrSet.h"
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
        (domainName(function.domain()) + "::" + function.name()).str();
    if (!functions.try_emplace(key, &function).second) {
      modelError("function '" + spelling + "' is defined twice");
      return false;
    }
    if (!addOpsets(function.opset_import(), "function '" + spelling + "'"))
      return false;
  }
  return true;
}

ArrayAttr GraphImporter::keepFunctions() {
  SmallVector<Attribute> result;
  for (const auto &[index, function] : llvm::enumerate(model.functions())) {
    NamedAttrList entries;
    entries.set("domain", builder.getStringAttr(function.domain()));
    entries.set("name", builder.getStringAttr(function.name()));
    if (!function.overload().empty())
      entries.set("overload", builder.getStringAttr(function.overload()));
    // As it stands in the file, since the compiler does not look at it again.
    ArrayRef<char> bytes = file.functionBytes(index);
    auto type = RankedTensorType::get({static_cast<int64_t>(bytes.size())},
                                      builder.getIntegerType(8));
    auto keep = [buffer = file.buffer()](void *, size_t, size_t) {};
    entries.set("proto",
                DenseResourceElementsAttr::get(
                    type, resourceName(function.name() + ".function"),
                    AsmResourceBlob(bytes, /*dataAlignment=*/1, std::move(keep),
                                    /*dataIsMutable=*/false)));
    // A function may be written for other opsets than the model.
    SmallVector<NamedAttribute> others;
    llvm::StringSet<> seen;
    for (const auto &import : function.opset_import()) {
      StringRef domain = canonicalDomain(import.domain());
      if (opsets.lookup(domain) != import.version() &&
          seen.insert(domain).second)
        others.push_back(builder.getNamedAttr(
            domainName(domain), builder.getI64IntegerAttr(import.version())));
    }
    if (!others.empty())
      entries.set("other_opsets", builder.getDictionaryAttr(others));
    result.push_back(entries.getDictionary(context));
  }
  return builder.getArrayAttr(result);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// The name that a value has in the source.
static StringRef sourceName(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto names = result.getOwner()->getAttrOfType<ArrayAttr>("tandem.outputs");
    return names ? cast<StringAttr>(names[result.getResultNumber()]).getValue()
                 : StringRef();
  }
  auto location = dyn_cast<NameLoc>(value.getLoc());
  return location ? location.getName().getValue() : StringRef();
}

Attribute GraphImporter::keepGraph(const GraphProto &graph) {
  bool isClosed = true;
  collectGraphCaptures(graph, [&](StringRef) { isClosed = false; });
  if (!isClosed)
    return {};
  GraphProto whole = graph;
  file.restore(whole);
  if (!charge(4 * whole.ByteSizeLong()))
    return {};
  return builder.getStringAttr(whole.SerializeAsString());
}

Operation *GraphImporter::createAbsent(Scope &scope, NodeState &node,
                                       StringRef name) {
  Attributes attributes;
  attributes.emplace_back(outputsName,
                          builder.getArrayAttr({outputName(node.scope, name)}));
  attributes.emplace_back(valueName, unit);
  return createOp(scope, node.location, noValueOp, noneType, {}, attributes);
}

std::optional<NamedAttrList> GraphImporter::describeCall(NodeState &node,
                                                         bool isInOrder) {
  Attributes attributes;
  for (const AttributeProto *attribute : node.attributes) {
    bool isList = attribute->type() == AttributeProto::GRAPHS;
    if (attribute->type() != AttributeProto::GRAPH && !isList) {
      if (!convertAttribute(node, *attribute, attributes))
        return std::nullopt;
      continue;
    }
    SmallVector<Attribute> graphs;
    if (!isList)
      graphs.push_back(keepGraph(attribute->g()));
    for (const GraphProto &graph : attribute->graphs())
      graphs.push_back(keepGraph(graph));
    if (llvm::is_contained(graphs, Attribute()))
      return std::nullopt;
    addKind(node, attribute->name(), attribute->type());
    attributes.emplace_back(attributeName(node.kind, attribute->name()),
                            isList ? builder.getArrayAttr(graphs)
                                   : graphs.front());
  }
  if (!isInOrder)
    attributes.emplace_back(orderName, attributeNames(node));
  NamedAttrList entries;
  auto addText = [&](StringRef name, StringRef text) {
    if (!text.empty())
      entries.set(name, builder.getStringAttr(text));
  };
  entries.set("op", builder.getStringAttr(node.proto.op_type()));
  addText("domain", node.proto.domain());
  addText("overload", node.proto.overload());
  if (!node.proto.name().empty())
    addText("name", node.scope.prefix + node.proto.name());
  addText("extra",
          file.nodeExtras(node.proto) +
              nodeExtras(node.proto, node.scope.callAttributes, spellsDomain));
  if (node.scope.call >= 0)
    entries.set("parent", builder.getI64IntegerAttr(node.scope.call));
  if (!attributes.empty())
    entries.set("attributes", builder.getDictionaryAttr(attributes));
  if (!node.kinds.empty())
    entries.set("kinds", builder.getDictionaryAttr(node.kinds));
  return entries;
}

void GraphImporter::recordCall(NodeState &node, int64_t call,
                               NamedAttrList &entries,
                               ArrayRef<Operation *> ops) {
  CallBody body = describeCallBody(ops);
  SmallVector<Attribute> inputs, outputs;
  for (const Slot *slot : node.inputs) {
    if (!slot || !slot->value) {
      inputs.push_back(emptyString);
      continue;
    }
    // An input that the body does not read has only its name.
    auto *place = llvm::find(body.externals, slot->value);
    if (place == body.externals.end())
      inputs.push_back(builder.getStringAttr(sourceName(slot->value)));
    else
      inputs.push_back(
          builder.getI64IntegerAttr(place - body.externals.begin()));
  }
  for (const Slot *slot : node.outputs) {
    auto *place =
        slot ? llvm::find(body.results, slot->value) : body.results.end();
    outputs.push_back(builder.getI64IntegerAttr(
        place == body.results.end() ? -1 : place - body.results.begin()));
  }
  entries.set("inputs", builder.getArrayAttr(inputs));
  entries.set("outputs", builder.getArrayAttr(outputs));
  entries.set("hash",
              builder.getI64IntegerAttr(static_cast<int64_t>(body.hash)));
  calls[static_cast<size_t>(call)] = entries.getDictionary(context);
}

Value GraphImporter::nameAgain(Scope &scope, NodeState &node, StringRef name,
                               const Slot &slot) {
  Attributes attributes;
  attributes.emplace_back(outputsName,
                          builder.getArrayAttr({outputName(node.scope, name)}));
  if (ArrayAttr names = dimParamsOf(slot.info))
    attributes.emplace_back(dimParamsName, names);
  return createOp(scope, node.location, OperationName("onnx.Identity", context),
                  slot.value.getType(), slot.value, attributes)
      ->getResult(0);
}

bool GraphImporter::noteAllReduce(NodeState &node) {
  const FunctionProto &function = *node.kind.ownFunction;
  auto form = parseFusedNodeName(function.name());
  if (!form)
    return true;
  StringRef name = "world";
  int64_t size = 0;
  SmallVector<int64_t> ranks;
  for (const AttributeProto *attribute : node.attributes) {
    if (attribute->name() == "group")
      name = attribute->s();
    else if (attribute->name() == "group_size")
      size = attribute->i();
    else if (attribute->name() == "ranks")
      ranks.assign(attribute->ints().begin(), attribute->ints().end());
  }
  auto refuse = [&] {
    ++numErrors;
    InFlightDiagnostic diagnostic = emitError(node.location);
    diagnostic << describe(node.proto, node.index, node.kind.spelling,
                           node.scope)
               << ": ";
    return diagnostic;
  };
  llvm::function_ref<InFlightDiagnostic()> emit = refuse;
  GroupAttr group = GroupAttr::getChecked(emit, context, name, size,
                                          ArrayRef<int64_t>(ranks));
  if (!group)
    return false;
  if (!knownGroups.insert(group).second)
    return true;
  // From the function's first input to its third output, a node at a time.
  SmallVector<Attribute> nodes;
  std::string value = function.input(0);
  for (const NodeProto &proto : function.node()) {
    if (value == function.output(2))
      break;
    if (proto.input_size() != 1 || proto.output_size() != 1 ||
        proto.input(0) != value)
      return true;
    NodeState inner{proto,
                    node.index,
                    kindOf(proto),
                    node.scope,
                    node.location,
                    {},
                    {},
                    {},
                    {},
                    {},
                    {}};
    Attributes attributes;
    for (const AttributeProto &attribute : proto.attribute())
      if (!attribute.ref_attr_name().empty() || attribute.has_g() ||
          attribute.t().data_location() == TensorProto::EXTERNAL ||
          !convertAttribute(inner, attribute, attributes))
        return numErrors == 0;
    if (inner.kind.customName) {
      attributes.emplace_back(functionNameName, inner.kind.customName);
      attributes.emplace_back(domainNameName, inner.kind.customDomain);
    }
    NamedAttrList sorted(attributes);
    if (sorted.findDuplicate())
      return true;
    nodes.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("attributes", sorted.getDictionary(context)),
         builder.getNamedAttr(
             "op", builder.getStringAttr(inner.kind.name.getStringRef()))}));
    value = proto.output(0);
  }
  if (value != function.output(2) || nodes.empty())
    return true;
  allReduceNodes.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("group", group),
       builder.getNamedAttr("nodes", builder.getArrayAttr(nodes)),
       builder.getNamedAttr(
           "reduction", ReductionKindAttr::get(context, ReductionKind::Sum))}));
  return true;
}

void GraphImporter::inlineFunction(NodeState &node, bool isInOrder) {
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

  std::optional<NamedAttrList> description = describeCall(node, isInOrder);
  if (description &&
      charge(512 + 64 * static_cast<uint64_t>(node.proto.input_size() +
                                              node.proto.output_size()))) {
    scope.call = static_cast<int64_t>(calls.size());
    calls.push_back(unit);
  }
  Block *block = scope.target->block;
  Operation *before = block->empty() ? nullptr : &block->back();

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
  llvm::SmallPtrSet<const Slot *, 4> named;
  for (size_t i = 0; i != node.outputs.size(); ++i) {
    Slot *output = node.outputs[i];
    if (!output)
      continue;
    Slot *slot = lookup(scope, function.output(static_cast<int>(i)));
    if (!slot)
      nodeError(node, "the function's output '" +
                          function.output(static_cast<int>(i)) +
                          "' is not computed by any of its nodes");
    output->value = valueOf(node.scope, slot);
    if (!slot)
      continue;
    output->info = slot->info;
    if (output->declared)
      noteType(node.scope, *output->declared, slot->info);
    bool isOwn = slot->definition >= 0 && named.insert(slot).second;
    if (!slot->value || slot->isAbsent) {
      output->isAbsent = true;
      if (scope.call >= 0)
        output->value = createAbsent(scope, node, output->name)->getResult(0);
    } else if (!isOwn) {
      output->value = nameAgain(scope, node, output->name, *slot);
    }
  }
  if (scope.call < 0)
    return;
  SmallVector<Operation *> ops;
  auto first = before ? std::next(Block::iterator(before)) : block->begin();
  for (Operation &op : llvm::make_range(first, block->end()))
    if (op.getName() != noValueOp || op.hasAttr(callName))
      ops.push_back(&op);
  // Something must tell where the call was.
  if (ops.empty())
    ops.push_back(createAbsent(scope, node, ""));
  recordCall(node, scope.call, *description, ops);
}
