//===- GraphImporter.cpp - ONNX graphs to MLIR regions --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "ExtraFields.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/CallBody.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

/// The newest that is known; see third_party/onnx. A newer version may change
/// what a node means, so it is refused.
static constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 14;
static constexpr int64_t kMinOpset = 7, kMaxOpset = 28;

//===----------------------------------------------------------------------===//
// Construction, errors, budget
//===----------------------------------------------------------------------===//

GraphImporter::GraphImporter(const ModelFile &file, StringRef fileName,
                             std::string folder, MLIRContext *context,
                             const OnnxImportOptions &options)
    : file(file), model(file.model()), context(context), options(options),
      builder(context), fileName(StringAttr::get(context, fileName)),
      types(context), external(std::move(folder), options.followsLinks),
      reader(file, types, external,
             std::max<int64_t>(1, options.maxDenseElements)),
      budget((uint64_t(64) << 20) + 64 * file.buffer()->getBufferSize()),
      outputsName(builder.getStringAttr("tandem.outputs")),
      dimParamsName(builder.getStringAttr("tandem.dim_params")),
      nodeNameName(builder.getStringAttr("onnx_node_name")),
      valueName(builder.getStringAttr("value")),
      initializerName(builder.getStringAttr("tandem.initializer")),
      functionNameName(builder.getStringAttr("function_name")),
      domainNameName(builder.getStringAttr("domain_name")),
      regionsName(builder.getStringAttr("tandem.regions")),
      bodiesName(builder.getStringAttr("tandem.bodies")),
      elementsName(builder.getStringAttr(externalElementsAttrName)),
      formName(builder.getStringAttr("tandem.form")),
      kindsName(builder.getStringAttr("tandem.kinds")),
      overloadName(builder.getStringAttr("tandem.overload")),
      callName(builder.getStringAttr(callAttrName)),
      extraName(builder.getStringAttr("tandem.extra")),
      orderName(builder.getStringAttr("tandem.order")),
      sparseName(builder.getStringAttr("sparse_value")),
      constantOp("onnx.Constant", context), noValueOp("onnx.NoValue", context),
      yieldOp("onnx.Yield", context), unit(builder.getUnitAttr()),
      noneType(builder.getNoneType()),
      signedInt64(builder.getIntegerType(64, /*isSigned=*/true)),
      emptyString(builder.getStringAttr("")) {}

bool GraphImporter::mayReport() {
  ++numErrors;
  if (numErrors == options.maxErrors + 1)
    emitError(FileLineColLoc::get(fileName, 0, 0))
        << "too many errors; the rest is not shown";
  return numErrors <= options.maxErrors;
}

void GraphImporter::modelError(const Twine &message) {
  if (mayReport())
    emitError(FileLineColLoc::get(fileName, 0, 0)) << message;
}

void GraphImporter::graphError(const Scope &scope, const Twine &message) {
  modelError(message + scope.where);
}

std::string GraphImporter::describe(const NodeProto &proto, int64_t index,
                                    StringRef spelling,
                                    const Scope &scope) const {
  std::string text = ("node #" + Twine(index)).str();
  if (!proto.name().empty())
    text += (" '" + proto.name() + "'");
  if (!spelling.empty())
    text += (" (" + spelling + ")").str();
  return text + scope.where;
}

void GraphImporter::nodeError(const NodeState &node, const Twine &message) {
  if (mayReport())
    emitError(node.location)
        << describe(node.proto, node.index, node.kind.spelling, node.scope)
        << ": " << message;
}

bool GraphImporter::charge(uint64_t bytes) {
  spent += bytes;
  if (spent <= budget)
    return true;
  if (!failedBudget)
    modelError("importing this model needs memory out of proportion to its "
               "size; nested functions or long dimension "
               "names multiply");
  failedBudget = true;
  return false;
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

bool GraphImporter::addOpsets(
    const google::protobuf::RepeatedPtrField<::tandem_onnx::OperatorSetIdProto>
        &imports,
    const Twine &owner) {
  for (const auto &import : imports) {
    StringRef domain = canonicalDomain(import.domain());
    int64_t version = import.version();
    if (domain.empty() && (version < kMinOpset || version > kMaxOpset)) {
      modelError(owner + " needs opset " + Twine(version) +
                 " of ai.onnx; this importer reads opsets " + Twine(kMinOpset) +
                 " to " + Twine(kMaxOpset));
      return false;
    }
    auto [entry, isNew] = opsets.try_emplace(domain, version);
    // Functions may be written against an older opset than the model.
    if (!isNew && entry->second != version &&
        &imports == &model.opset_import()) {
      modelError("the model declares opsets " + Twine(entry->second) + " and " +
                 Twine(version) + " of " + domainName(domain));
      return false;
    }
  }
  return true;
}

bool GraphImporter::checkVersions() {
  if (!model.has_ir_version() && !model.has_graph()) {
    modelError("this is not an ONNX model: it has no IR version and no graph");
    return false;
  }
  if (model.ir_version() < kMinIrVersion ||
      model.ir_version() > kMaxIrVersion) {
    modelError("the model has IR version " + Twine(model.ir_version()) +
               "; this importer reads versions " + Twine(kMinIrVersion) +
               " to " + Twine(kMaxIrVersion));
    return false;
  }
  if (!model.has_graph()) {
    modelError("the model has no graph");
    return false;
  }
  if (model.opset_import().empty()) {
    modelError("the model declares no opset");
    return false;
  }
  return addOpsets(model.opset_import(), "the model");
}

bool GraphImporter::hasEmptyDocStrings() const {
  return 2 * file.numEmptyDocStrings() > file.numNodes();
}

bool GraphImporter::hasEmptyDomains() const {
  for (int64_t i = 0, e = std::min<int64_t>(file.numNodes(), 16); i != e; ++i) {
    StringRef bytes = file.nodeBytes(i);
    NodeProto node;
    if (node.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
        hasPlainDomain(node))
      return node.has_domain() && node.domain().empty();
  }
  return false;
}

/// Keeps the opsets as the model lists them, if not by name and each with its
/// domain, ai.onnx as "".
static void keepOpsets(const ::tandem_onnx::ModelProto &model,
                       ::tandem_onnx::ModelProto &kept) {
  StringRef last;
  bool isUsual = true;
  for (const auto &import : model.opset_import()) {
    StringRef name = domainName(import.domain());
    isUsual &=
        import.has_domain() && import.domain() != "ai.onnx" && name > last;
    last = name;
  }
  if (!isUsual)
    *kept.mutable_opset_import() = model.opset_import();
}

DictionaryAttr GraphImporter::modelAttributes() {
  NamedAttrList attributes;
  attributes.set("ir_version", builder.getI64IntegerAttr(model.ir_version()));
  // Those that only functions have apart: their nodes may be the model's now.
  llvm::StringMap<int64_t> own;
  for (const auto &import : model.opset_import())
    own.try_emplace(canonicalDomain(import.domain()), import.version());
  SmallVector<NamedAttribute> imports, others;
  for (const auto &[domain, version] : opsets)
    (own.contains(domain) ? imports : others)
        .push_back(builder.getNamedAttr(domainName(domain),
                                        builder.getI64IntegerAttr(version)));
  attributes.set("opset_imports", builder.getDictionaryAttr(imports));
  if (!others.empty())
    attributes.set("function_imports", builder.getDictionaryAttr(others));
  if (!model.functions().empty())
    attributes.set("functions", keepFunctions());
  if (!calls.empty())
    attributes.set("calls", builder.getArrayAttr(calls));
  ::tandem_onnx::ModelProto kept;
  keepMetadata(model.metadata_props(), *kept.mutable_metadata_props());
  keepOpsets(model, kept);
  if (std::string extra = file.modelExtras() + kept.SerializeAsString();
      !extra.empty())
    attributes.set("extra", builder.getStringAttr(extra));
  auto addString = [&](StringRef name, bool isPresent,
                       const std::string &text) {
    if (isPresent)
      attributes.set(name, builder.getStringAttr(text));
  };
  addString("producer_name", model.has_producer_name(), model.producer_name());
  addString("producer_version", model.has_producer_version(),
            model.producer_version());
  addString("domain", model.has_domain(), model.domain());
  addString("doc_string", model.has_doc_string(), model.doc_string());
  addString("graph_name", model.graph().has_name(), model.graph().name());
  addString("graph_doc_string", model.graph().has_doc_string(),
            model.graph().doc_string());
  attributes.append(mainValues);
  if (DictionaryAttr orders = attributeOrders(); !orders.empty())
    attributes.set("attribute_orders", orders);
  if (!usualExtra.empty())
    attributes.set("node_extra", builder.getStringAttr(usualExtra));
  if (!dimNames.empty())
    attributes.set("dim_names", builder.getDictionaryAttr(dimNames));
  if (model.has_model_version())
    attributes.set("model_version",
                   builder.getI64IntegerAttr(model.model_version()));
  auto addMetadata = [&](StringRef name, StringRef owner, const auto &props) {
    NamedAttrList metadata;
    for (const auto &entry : props)
      if (!entry.key().empty())
        metadata.push_back(builder.getNamedAttr(
            entry.key(), builder.getStringAttr(entry.value())));
    if (auto duplicate = metadata.findDuplicate())
      modelError("the " + owner + "'s metadata has '" +
                 duplicate->getName().getValue() + "' twice");
    else if (!metadata.empty())
      attributes.set(name, metadata.getDictionary(context));
  };
  addMetadata("metadata_props", "model", model.metadata_props());
  addMetadata("graph_metadata_props", "graph", model.graph().metadata_props());
  // Initializers had to be inputs then; this is where they stood.
  if (model.ir_version() < 4 && !model.graph().initializer().empty()) {
    SmallVector<Attribute> inputs;
    for (const ValueInfoProto &input : model.graph().input())
      inputs.push_back(builder.getStringAttr(input.name()));
    attributes.set("inputs", builder.getArrayAttr(inputs));
  }
  return attributes.getDictionary(context);
}

OwningOpRef<ModuleOp> GraphImporter::run() {
  if (!checkVersions() || !collectFunctions())
    return nullptr;
  if (hasEmptyDocStrings())
    usualExtra = kEmptyDocString.str();
  NodeProto usual;
  usual.set_domain("");
  spellsDomain = hasEmptyDomains();
  if (spellsDomain)
    usualExtra += usual.SerializeAsString();
  Location location = FileLineColLoc::get(fileName, 0, 0);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  auto function =
      func::FuncOp::create(location, "main", builder.getFunctionType({}, {}));
  module->push_back(function);
  importMain(function);
  (*module)->setAttr("tandem.onnx", modelAttributes());
  if (!allReduceNodes.empty())
    (*module)->setAttr(allReduceNodesAttrName,
                       builder.getArrayAttr(allReduceNodes));
  if (numErrors != 0)
    return nullptr;
  return module;
}

void GraphImporter::importMain(func::FuncOp function) {
  const GraphProto &graph = model.graph();
  // Scopes refer to what is read.
  NodeReader nodes(file);
  Scope scope(function.getLoc());
  BlockState target;
  target.block = new Block();
  function.getBody().push_back(target.block);
  scope.target = &target;

  llvm::StringMap<const TensorProto *> initializers;
  for (const TensorProto &tensor : graph.initializer())
    initializers.try_emplace(tensor.name(), &tensor);
  llvm::StringMap<const SparseTensorProto *> sparseInitializers;
  for (const SparseTensorProto &tensor : graph.sparse_initializer())
    if (!initializers.contains(tensor.values().name()))
      sparseInitializers.try_emplace(tensor.values().name(), &tensor);
  scope.names.reserve(graph.value_info_size() + graph.initializer_size() +
                      file.numNodes());
  declare(scope, graph);

  // Inputs. Before IR version 4, every initializer had to be an input, too.
  llvm::StringSet<> defaults;
  SmallVector<Type> argumentTypes;
  SmallVector<DictionaryAttr> argumentAttributes;
  for (const auto &[index, input] : llvm::enumerate(graph.input())) {
    const TensorProto *initializer = initializers.lookup(input.name());
    const SparseTensorProto *sparse = sparseInitializers.lookup(input.name());
    if ((initializer || sparse) && model.ir_version() < 4) {
      slotFor(scope, input.name())->isInterface = true;
      continue;
    }
    if (input.name().empty()) {
      modelError("graph input " + Twine(index) + " has no name");
      continue;
    }
    Slot *slot = define(scope, input.name(), Slot::kInput);
    if (!slot)
      continue;
    std::string error;
    if (input.has_type() && (!convertType(input.type(), slot->info, error) ||
                             !checkSize(slot->info, error))) {
      modelError("graph input '" + input.name() + "' " + error);
      slot->info = ValueInfo();
    }
    NamedAttrList attributes;
    attributes.set("onnx.name", builder.getStringAttr(input.name()));
    if (initializer || sparse) {
      defaults.insert(input.name());
      TensorInfo info;
      Attribute value =
          initializer
              ? reader.toAttribute(*initializer, resourceName(input.name()),
                                   info, error)
              : readSparse(*sparse, info, error);
      if (value)
        attributes.set("tandem.default", value);
      else
        modelError("initializer '" + input.name() + "' " + error);
      if (value) {
        auto held = initializer ? infoOf(*initializer) : infoOf(*sparse);
        std::string spelling = print(held);
        bool unknown = slot->info.kind == ValueInfo::Unknown;
        if (!unknown &&
            mergeDeclared(held, slot->info) == MergeResult::Contradiction)
          modelError("graph input '" + input.name() + "' is declared as " +
                     print(slot->info) + ", but its initializer is " +
                     spelling);
        else if (unknown || (slot->info.isTensor() && slot->info.dataType == 0))
          slot->info = held;
      }
      if (input.has_type())
        noteType(scope, input.type(), slot->info);
    }
    std::string dimParams;
    appendDimParams(slot->info, dimParams);
    if (!dimParams.empty())
      attributes.set("onnx.dim_params", builder.getStringAttr(dimParams));
    Type type = typeOf(slot->info);
    slot->value = target.block->addArgument(
        type,
        NameLoc::get(builder.getStringAttr(input.name()), scope.callLocation));
    argumentTypes.push_back(type);
    argumentAttributes.push_back(attributes.getDictionary(context));
  }

  importInitializers(scope, graph, defaults);
  if (!importNodes(scope, nodes) || failedBudget)
    return;
  if (DictionaryAttr declared = declaredValues(scope, graph))
    mainValues.set("value_info", declared);
  keepValues(scope, graph, /*isBody=*/false, mainValues);
  // Those that are inputs come first in the IR.
  if (!defaults.empty()) {
    SmallVector<Attribute> order, sparseOrder;
    for (const TensorProto &tensor : graph.initializer())
      order.push_back(builder.getStringAttr(tensor.name()));
    mainValues.set("initializer_order", builder.getArrayAttr(order));
    for (const SparseTensorProto &tensor : graph.sparse_initializer())
      sparseOrder.push_back(builder.getStringAttr(tensor.values().name()));
    if (!sparseOrder.empty())
      mainValues.set("sparse_order", builder.getArrayAttr(sparseOrder));
  }

  SmallVector<Value> results;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> resultAttributes;
  for (const ValueInfoProto &output : graph.output()) {
    Slot *slot = lookup(scope, output.name());
    if (!slot) {
      modelError("graph output '" + output.name() +
                 "' is not computed by any node");
      continue;
    }
    if (!slot->value)
      continue;
    NamedAttrList attributes;
    attributes.set("onnx.name", builder.getStringAttr(output.name()));
    std::string dimParams;
    appendDimParams(slot->info, dimParams);
    if (!dimParams.empty())
      attributes.set("onnx.dim_params", builder.getStringAttr(dimParams));
    results.push_back(slot->value);
    resultTypes.push_back(slot->value.getType());
    resultAttributes.push_back(attributes.getDictionary(context));
  }
  builder.setInsertionPointToEnd(target.block);
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(resultAttributes);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Slot *GraphImporter::slotFor(Scope &scope, StringRef name) {
  auto [entry, isNew] =
      scope.names.try_emplace(llvm::CachedHashStringRef(name), nullptr);
  if (isNew) {
    entry->second = new (scope.slots.Allocate()) Slot();
    entry->second->owner = &scope;
    entry->second->name = name;
  }
  return entry->second;
}

Slot *GraphImporter::define(Scope &scope, StringRef name, int64_t definition) {
  Slot *slot = slotFor(scope, name);
  if (slot->definition == Slot::kUndefined) {
    slot->definition = definition;
    return slot;
  }
  auto spell = [](int64_t definition) {
    if (definition == Slot::kInput)
      return std::string("a graph input");
    if (definition == Slot::kInitializer)
      return std::string("an initializer");
    return ("node #" + Twine(definition)).str();
  };
  graphError(scope, "value '" + name + "' is defined twice, by " +
                        spell(slot->definition) + " and by " +
                        spell(definition));
  return nullptr;
}

Slot *GraphImporter::lookup(const Scope &scope, StringRef name) const {
  llvm::CachedHashStringRef key(name);
  for (const Scope *at = &scope; at; at = at->parent) {
    auto entry = at->names.find(key);
    if (entry != at->names.end() &&
        entry->second->definition != Slot::kUndefined)
      return entry->second;
  }
  return nullptr;
}
