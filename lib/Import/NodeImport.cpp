//===- NodeImport.cpp - Nodes to ops --------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"
#include "GraphImporter.h"

#include "tandem/OnnxOps/CallBody.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

static bool isIdentifier(StringRef text) {
  if (text.empty() || llvm::isDigit(text.front()))
    return false;
  return llvm::all_of(text,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Whether the function is one that Tandem's exporter writes.
static bool isOwnFunction(const ::tandem_onnx::FunctionProto &function) {
  if (isTokenLimitName(function.name()))
    return function.input_size() == 0 && function.output_size() == 1;
  auto form = parseFusedNodeName(function.name());
  return form &&
         function.input_size() == static_cast<int>(form->getNumInputs()) &&
         function.output_size() == static_cast<int>(form->numOutputs);
}

const OpKind &GraphImporter::kindOf(const NodeProto &node) {
  SmallString<64> key;
  bool isShort = node.domain().empty() && node.overload().empty();
  if (isShort)
    if (const std::unique_ptr<OpKind> &known = plainKinds[node.op_type()])
      return *known;
  kindKey(node.domain(), node.op_type(), node.overload(), key);
  std::unique_ptr<OpKind> &kind =
      isShort ? plainKinds[node.op_type()] : kinds[key];
  if (kind)
    return *kind;

  StringRef domain = canonicalDomain(node.domain());
  StringRef opType = node.op_type();
  // These are our own spellings, and other names would not print as one word.
  bool isPlain = domain.empty() && isIdentifier(opType) && opType != "Custom" &&
                 opType != "NoValue" && opType != "Yield" &&
                 opType != "Return" && opType != "EntryPoint";
  kind = std::make_unique<OpKind>(OperationName(
      isPlain ? ("onnx." + opType).str() : std::string("onnx.Custom"),
      context));
  kind->spelling = (domain.empty() ? opType : domain + "::" + opType).str();
  kind->overload = node.overload();
  kind->function = functions.lookup(key);
  if (!isPlain) {
    kind->customName = builder.getStringAttr(opType);
    kind->customDomain = builder.getStringAttr(node.domain());
  }
  if (isPlain) {
    // A function may take the name.
    kind->isCast = !kind->function && (opType == "Cast" || opType == "BitCast");
    kind->special = llvm::StringSwitch<OpKind::Special>(opType)
                        .Case("Constant", OpKind::Constant)
                        .Case("If", OpKind::If)
                        .Case("Loop", OpKind::Loop)
                        .Case("Scan", OpKind::Scan)
                        .Default(OpKind::Plain);
  }
  StringRef inferred = opType;
  if (domain == onnxDomain && kind->function &&
      opsets.lookup(domain) == onnxDomainVersion &&
      isOwnFunction(*kind->function)) {
    // What a function of ours computes is known without its body.
    kind->ownFunction = kind->function;
    kind->function = nullptr;
    inferred = inferred.take_until([](char c) { return c == '_'; });
  }
  kind->infer = findInference(domain, inferred);
  if (opType.empty())
    kind->problem = "it has no op type";
  else if (!kind->function && domain != "com.microsoft" &&
           !opsets.contains(domain))
    kind->problem = ("its domain '" + domainName(domain) +
                     "' is not among the opsets that the model declares")
                        .str();
  return *kind;
}

Operation *
GraphImporter::createOp(Scope &scope, Location location, OperationName name,
                        TypeRange results, ValueRange operands,
                        Attributes &attributes,
                        MutableArrayRef<std::unique_ptr<Region>> regions) {
  if (scope.call >= 0)
    attributes.emplace_back(callName, builder.getI64IntegerAttr(scope.call));
  // A node has a handful of attributes, for which this beats a general sort.
  auto byName = [](const NamedAttribute &a, const NamedAttribute &b) {
    return a.getName().getValue() < b.getName().getValue();
  };
  if (attributes.size() > 16)
    llvm::sort(attributes, byName);
  else
    for (auto *at = attributes.begin(); at != attributes.end(); ++at)
      if (at != attributes.begin() && byName(*at, at[-1]))
        std::rotate(std::upper_bound(attributes.begin(), at, *at, byName), at,
                    at + 1);
  Operation *op =
      Operation::create(location, name, results, operands,
                        DictionaryAttr::getWithSorted(context, attributes),
                        /*properties=*/nullptr, /*successors=*/{},
                        static_cast<unsigned>(regions.size()));
  for (auto [index, region] : llvm::enumerate(regions))
    if (region)
      op->getRegion(index).takeBody(*region);
  scope.target->block->push_back(op);
  return op;
}

Value GraphImporter::noValue(Scope &scope) {
  BlockState &target = *scope.target;
  if (!target.noValue) {
    Operation *op = Operation::create(
        scope.callLocation, noValueOp, noneType, {},
        builder.getDictionaryAttr(builder.getNamedAttr(valueName, unit)),
        nullptr, {}, 0);
    target.block->push_front(op);
    target.noValue = op->getResult(0);
  }
  return target.noValue;
}

Value GraphImporter::valueOf(Scope &scope, const Slot *slot) {
  return slot && slot->value ? slot->value : noValue(scope);
}

StringAttr GraphImporter::outputName(const Scope &scope, StringRef name) {
  if (scope.prefix.empty() || name.empty())
    return builder.getStringAttr(name);
  auto renamed = scope.renamed.find(name);
  if (renamed != scope.renamed.end())
    return builder.getStringAttr(renamed->second);
  return builder.getStringAttr(scope.prefix + name);
}

void GraphImporter::abandon(NodeState &node) {
  for (Slot *slot : node.outputs)
    if (slot)
      slot->value = noValue(node.scope);
}

bool GraphImporter::inferOutputs(NodeState &node) {
  // External data is read only if a shape depends on it.
  bool isDeclared = llvm::all_of(node.outputs, [](const Slot *slot) {
    return !slot || (slot->declared && slot->declared->has_tensor_type() &&
                     slot->declared->tensor_type().has_shape());
  });
  SmallVector<const ValueInfo *, 8> inputs;
  for (const Slot *slot : node.inputs)
    inputs.push_back(slot && !slot->isAbsent ? &slot->info : nullptr);
  auto load = [&](const TensorProto &tensor, SymInts &elements,
                  std::string &error) {
    return readElements(tensor, elements, error);
  };
  NodeInference inference(node.proto.op_type(), inputs, node.attributes,
                          node.infos, !isDeclared, load);
  node.kind.infer(inference);
  if (!inference.failed())
    return true;
  nodeError(node, inference.message());
  return false;
}

bool GraphImporter::finishOutput(NodeState &node, size_t index) {
  Slot *slot = node.outputs[index];
  ValueInfo &info = node.infos[index];
  if (!slot) {
    info = ValueInfo();
    return true;
  }
  std::string error;
  if (slot->declared) {
    ValueInfo declared;
    if (!convertType(*slot->declared, declared, error)) {
      nodeError(node, "output '" + slot->name + "' " + error);
      return false;
    }
    ValueInfo inferred = info;
    auto warn = [&](const Twine &consequence) {
      if (numErrors == 0)
        emitWarning(node.location)
            << describe(node.proto, node.index, node.kind.spelling, node.scope)
            << ": output '" << slot->name << "' is declared as "
            << print(declared) << ", but is " << print(inferred) << "; "
            << consequence;
    };
    switch (mergeDeclared(info, declared)) {
    case MergeResult::Ok:
      break;
    case MergeResult::DimConflict:
      warn("the dimensions that differ are taken as unknown");
      break;
    case MergeResult::TypeConflict:
      // A norm's type may be that of its operand or of its scale, depending on
      // who wrote it.
      if (node.kind.spelling == "Identity")
        warn("it is taken as declared");
      break;
    case MergeResult::Contradiction:
      nodeError(node, "output '" + slot->name + "' is declared as " +
                          print(declared) + ", but is " + print(inferred));
      return false;
    }
    noteType(node.scope, *slot->declared, declared, info);
    info.isWeak = false;
  }
  if (checkSize(info, error))
    return true;
  nodeError(node, "output '" + slot->name + "' " + error);
  return false;
}

void GraphImporter::importNode(Scope &scope, const NodeProto &proto,
                               int64_t index, ArrayRef<Slot *> inputs,
                               ArrayRef<Slot *> outputs) {
  const OpKind &kind = kindOf(proto);
  StringAttr nodeName;
  Location location =
      FileLineColLoc::get(fileName, static_cast<unsigned>(index + 1), 1);
  if (!proto.name().empty()) {
    nodeName = scope.prefix.empty()
                   ? builder.getStringAttr(proto.name())
                   : builder.getStringAttr(scope.prefix + proto.name());
    location = NameLoc::get(nodeName, location);
  }
  if (scope.callAttributes)
    location = CallSiteLoc::get(location, scope.callLocation);
  NodeState node{proto,   index, kind, scope, location, inputs,
                 outputs, {},    {},   {},    {}};
  node.infos.resize(outputs.size());
  if (!charge(256 + 48 * (inputs.size() + outputs.size())))
    return;
  if (!kind.problem.empty()) {
    nodeError(node, kind.problem);
    return abandon(node);
  }
  if (!resolveAttributes(node))
    return abandon(node);
  bool isInOrder = fitsAttributeOrder(node);
  if (kind.function)
    return inlineFunction(node, isInOrder);
  if (kind.ownFunction && !noteAllReduce(node))
    return abandon(node);

  Attributes attributes;
  SmallVector<std::unique_ptr<Region>, 1> regions;
  if (kind.special == OpKind::Constant) {
    if (!importConstant(node, attributes))
      return abandon(node);
  } else {
    for (const AttributeProto *attribute : node.attributes)
      if (!convertAttribute(node, *attribute, attributes))
        return abandon(node);
    if (!importRegions(node, regions, attributes))
      return abandon(node);
    if (!node.kinds.empty())
      attributes.emplace_back(kindsName, builder.getDictionaryAttr(node.kinds));
    if (!node.bodies.empty())
      attributes.emplace_back(bodiesName, builder.getArrayAttr(node.bodies));
    if (kind.infer && !inferOutputs(node))
      return abandon(node);
  }

  SmallVector<Type, 4> resultTypes;
  SmallVector<Attribute, 4> outputNames;
  for (size_t i = 0; i != outputs.size(); ++i) {
    if (!finishOutput(node, i))
      return abandon(node);
    resultTypes.push_back(typeOf(node.infos[i]));
    if (!outputs[i])
      outputNames.push_back(emptyString);
    else if (outputs[i]->nameAttr && scope.prefix.empty())
      outputNames.push_back(outputs[i]->nameAttr);
    else
      outputNames.push_back(outputName(scope, outputs[i]->name));
  }
  if (!isInOrder)
    attributes.emplace_back(orderName, attributeNames(node));
  // By name as far as possible, since they will be sorted.
  if (nodeName)
    attributes.emplace_back(nodeNameName, nodeName);
  if (ArrayAttr names = dimParamsOf(node.infos))
    attributes.emplace_back(dimParamsName, names);
  if (failedBudget)
    return;
  if (!outputNames.empty())
    attributes.emplace_back(outputsName, builder.getArrayAttr(outputNames));
  if (kind.customName) {
    attributes.emplace_back(functionNameName, kind.customName);
    attributes.emplace_back(domainNameName, kind.customDomain);
  }
  if (!proto.overload().empty())
    attributes.emplace_back(overloadName,
                            builder.getStringAttr(proto.overload()));
  if (std::string extras =
          file.nodeExtras(proto) +
          nodeExtras(proto, scope.callAttributes, spellsDomain);
      extras != usualExtra)
    attributes.emplace_back(extraName, builder.getStringAttr(extras));
  SmallVector<Value, 4> operands;
  for (const Slot *slot : inputs)
    operands.push_back(valueOf(scope, slot));
  Operation *op = createOp(scope, location, kind.name, resultTypes, operands,
                           attributes, regions);
  for (size_t i = 0; i != outputs.size(); ++i) {
    if (!outputs[i])
      continue;
    outputs[i]->value = op->getResult(static_cast<unsigned>(i));
    if (scope.prefix.empty())
      outputs[i]->nameAttr = cast<StringAttr>(outputNames[i]);
    outputs[i]->info = std::move(node.infos[i]);
  }
}
