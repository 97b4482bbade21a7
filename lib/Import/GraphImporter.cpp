//===- GraphImporter.cpp - ONNX graphs to MLIR regions -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <queue>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

/// The newest that is known; see third_party/onnx. A newer version may change
/// what a node means, so it is refused.
static constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 14;
static constexpr int64_t kMinOpset = 7, kMaxOpset = 28;

/// Bodies in bodies, and functions in functions. Protobuf itself stops at about
/// 33 bodies.
static constexpr unsigned kMaxDepth = 64;
/// NumPy's limit. With one, ranks cannot grow with each node of a hostile file.
static constexpr int64_t kMaxRank = 64;
static constexpr size_t kMaxSymbolLength = 256;
static constexpr size_t kMaxPrefixLength = 256;

//===----------------------------------------------------------------------===//
// Construction, errors, budget
//===----------------------------------------------------------------------===//

GraphImporter::GraphImporter(const ModelFile &file, StringRef fileName,
                             std::string folder, MLIRContext *context,
                             const OnnxImportOptions &options)
    : model(file.model()), context(context), options(options), builder(context),
      fileName(StringAttr::get(context, fileName)), types(context),
      external(std::move(folder)),
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

static StringRef canonicalDomain(StringRef domain) {
  return domain == "ai.onnx" ? StringRef() : domain;
}

static std::string domainName(StringRef domain) {
  return domain.empty() ? "ai.onnx" : domain.str();
}

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

/// A separator that no protobuf name of a model is expected to have; names that
/// do only miss the cache.
static void kindKey(StringRef domain, StringRef name, StringRef overload,
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

static bool isIdentifier(StringRef text) {
  if (text.empty() || llvm::isDigit(text.front()))
    return false;
  return llvm::all_of(text,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
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
  kind->function = functions.lookup(key);
  if (!isPlain) {
    kind->customName = builder.getStringAttr(opType);
    kind->customDomain = builder.getStringAttr(node.domain());
  }
  if (isPlain) {
    kind->isCast = opType == "Cast" || opType == "BitCast";
    kind->special = llvm::StringSwitch<OpKind::Special>(opType)
                        .Case("Constant", OpKind::Constant)
                        .Case("If", OpKind::If)
                        .Case("Loop", OpKind::Loop)
                        .Case("Scan", OpKind::Scan)
                        .Default(OpKind::Plain);
  }
  kind->infer = findInference(domain, opType);
  if (opType.empty())
    kind->problem = "it has no op type";
  else if (!kind->function && domain != "com.microsoft" &&
           !opsets.contains(domain))
    kind->problem = "its domain '" + domainName(domain) +
                    "' is not among the opsets that the model declares";
  return *kind;
}

DictionaryAttr GraphImporter::modelAttributes() {
  NamedAttrList attributes;
  attributes.set("ir_version", builder.getI64IntegerAttr(model.ir_version()));
  NamedAttrList imports;
  for (const auto &import : model.opset_import())
    imports.set(domainName(canonicalDomain(import.domain())),
                builder.getI64IntegerAttr(import.version()));
  attributes.set("opset_imports", imports.getDictionary(context));
  auto addString = [&](StringRef name, const std::string &text) {
    if (!text.empty())
      attributes.set(name, builder.getStringAttr(text));
  };
  addString("producer_name", model.producer_name());
  addString("producer_version", model.producer_version());
  addString("domain", model.domain());
  addString("doc_string", model.doc_string());
  addString("graph_name", model.graph().name());
  if (model.has_model_version())
    attributes.set("model_version",
                   builder.getI64IntegerAttr(model.model_version()));
  NamedAttrList metadata;
  for (const auto &entry : model.metadata_props())
    if (!entry.key().empty())
      metadata.push_back(builder.getNamedAttr(
          entry.key(), builder.getStringAttr(entry.value())));
  if (auto duplicate = metadata.findDuplicate())
    modelError("the model's metadata has '" + duplicate->getName().getValue() +
               "' twice");
  else if (!metadata.empty())
    attributes.set("metadata_props", metadata.getDictionary(context));
  return attributes.getDictionary(context);
}

OwningOpRef<ModuleOp> GraphImporter::run() {
  if (!checkVersions() || !collectFunctions())
    return nullptr;
  Location location = FileLineColLoc::get(fileName, 0, 0);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  (*module)->setAttr("tandem.onnx", modelAttributes());
  auto function =
      func::FuncOp::create(location, "main", builder.getFunctionType({}, {}));
  module->push_back(function);
  importMain(function);
  if (numErrors != 0)
    return nullptr;
  return module;
}

void GraphImporter::importMain(func::FuncOp function) {
  const GraphProto &graph = model.graph();
  Scope scope(function.getLoc());
  BlockState target;
  target.block = new Block();
  function.getBody().push_back(target.block);
  scope.target = &target;

  llvm::StringMap<const TensorProto *> initializers;
  for (const TensorProto &tensor : graph.initializer())
    initializers.try_emplace(tensor.name(), &tensor);
  scope.names.reserve(graph.value_info_size() + graph.initializer_size() +
                      graph.node_size());
  declare(scope, graph.value_info());
  declare(scope, graph.output());

  // Inputs. Before IR version 4, every initializer had to be an input, too.
  llvm::StringSet<> defaults;
  SmallVector<Type> argumentTypes;
  SmallVector<DictionaryAttr> argumentAttributes;
  for (const auto &[index, input] : llvm::enumerate(graph.input())) {
    const TensorProto *initializer = initializers.lookup(input.name());
    if (initializer && model.ir_version() < 4)
      continue;
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
    if (initializer) {
      defaults.insert(input.name());
      TensorInfo info;
      Attribute value = reader.toAttribute(
          *initializer, resourceName(input.name()), false, info, error);
      if (value)
        attributes.set("tandem.default", value);
      else
        modelError("initializer '" + input.name() + "' " + error);
      if (value && slot->info.kind == ValueInfo::Unknown) {
        slot->info = ValueInfo::tensor(initializer->data_type());
        SymInts dims;
        for (int64_t dim : initializer->dims())
          dims.push_back(SymInt::constant(dim));
        slot->info.setDims(dims);
      }
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
  importNodes(scope, graph.node());
  if (failedBudget)
    return;

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
// Types
//===----------------------------------------------------------------------===//

bool GraphImporter::convertShape(const ::tandem_onnx::TensorShapeProto &shape,
                                 ValueInfo &info, std::string &error) {
  if (shape.dim_size() > kMaxRank) {
    error = ("is declared with " + Twine(shape.dim_size()) +
             " dimensions; at most " + Twine(kMaxRank) + " are read")
                .str();
    return false;
  }
  info.hasRank = true;
  for (const auto &dim : shape.dim()) {
    if (dim.value_case() ==
        ::tandem_onnx::TensorShapeProto::Dimension::kDimValue) {
      if (dim.dim_value() < 0) {
        error = ("is declared with the negative dimension " +
                 Twine(dim.dim_value()))
                    .str();
        return false;
      }
      info.dims.push_back(SymInt::constant(dim.dim_value()));
      continue;
    }
    StringRef name = dim.dim_param();
    if (name.empty()) {
      info.dims.push_back(SymInt());
      continue;
    }
    if (name.size() > kMaxSymbolLength) {
      error =
          ("is declared with a dimension whose name has " + Twine(name.size()) +
           " characters; at most " + Twine(kMaxSymbolLength) + " are read")
              .str();
      return false;
    }
    // PyTorch writes "Max(1, s0)"; a comma would end the name in dim_params.
    std::string key = name.str();
    std::replace(key.begin(), key.end(), ',', ';');
    auto [entry, isNew] =
        symbolIds.try_emplace(key, static_cast<int64_t>(symbolNames.size()));
    if (isNew)
      symbolNames.push_back(entry->getKey());
    info.dims.push_back(SymInt::symbol(entry->second));
  }
  return true;
}

bool GraphImporter::convertType(const TypeProto &proto, ValueInfo &info,
                                std::string &error) {
  auto checkElement = [&](int32_t dataType) {
    if (dataType == 0 || types[dataType])
      return true;
    error =
        ("is declared with the unknown element type " + Twine(dataType)).str();
    return false;
  };
  info = ValueInfo();
  switch (proto.value_case()) {
  case TypeProto::kTensorType: {
    const auto &tensor = proto.tensor_type();
    if (!checkElement(tensor.elem_type()))
      return false;
    info.kind = ValueInfo::Tensor;
    info.dataType = tensor.elem_type();
    return !tensor.has_shape() || convertShape(tensor.shape(), info, error);
  }
  case TypeProto::kSequenceType:
  case TypeProto::kOptionalType: {
    bool isSequence = proto.value_case() == TypeProto::kSequenceType;
    const TypeProto &inner = isSequence ? proto.sequence_type().elem_type()
                                        : proto.optional_type().elem_type();
    ValueInfo element;
    if (!convertType(inner, element, error))
      return false;
    info.kind = isSequence ? ValueInfo::Sequence : ValueInfo::Optional;
    info.element = std::make_shared<ValueInfo>(std::move(element));
    return true;
  }
  case TypeProto::kMapType: {
    ValueInfo value;
    if (!checkElement(proto.map_type().key_type()) ||
        !convertType(proto.map_type().value_type(), value, error))
      return false;
    info.kind = ValueInfo::Other;
    Type key = types[proto.map_type().key_type()];
    llvm::raw_string_ostream(info.spelling)
        << "Map<" << (key ? key : noneType) << ", " << typeOf(value) << ">";
    return true;
  }
  case TypeProto::kSparseTensorType: {
    const auto &sparse = proto.sparse_tensor_type();
    ValueInfo tensor;
    if (!checkElement(sparse.elem_type()))
      return false;
    tensor.kind = ValueInfo::Tensor;
    tensor.dataType = sparse.elem_type();
    if (sparse.has_shape() && !convertShape(sparse.shape(), tensor, error))
      return false;
    info.kind = ValueInfo::Other;
    llvm::raw_string_ostream(info.spelling)
        << "Sparse<" << typeOf(tensor) << ">";
    return true;
  }
  case TypeProto::kOpaqueType:
    info.kind = ValueInfo::Other;
    info.spelling = "Opaque<\"";
    llvm::raw_string_ostream(info.spelling)
        << llvm::toHex(proto.opaque_type().domain()) << "\", \""
        << llvm::toHex(proto.opaque_type().name()) << "\">";
    return true;
  case TypeProto::VALUE_NOT_SET:
    return true;
  }
  return true;
}

Type GraphImporter::typeOf(const ValueInfo &info) {
  auto opaque = [&](StringRef spelling) {
    return OpaqueType::get(builder.getStringAttr("onnx"), spelling);
  };
  switch (info.kind) {
  case ValueInfo::Unknown:
    return noneType;
  case ValueInfo::Tensor: {
    Type element = types[info.dataType];
    if (!element)
      return noneType;
    if (!info.hasRank)
      return UnrankedTensorType::get(element);
    SmallVector<int64_t, 8> dims;
    for (SymInt dim : info.dims)
      dims.push_back(dim.isConstant() ? dim.value : ShapedType::kDynamic);
    return RankedTensorType::get(dims, element);
  }
  case ValueInfo::Sequence:
  case ValueInfo::Optional: {
    std::string spelling;
    llvm::raw_string_ostream(spelling)
        << (info.kind == ValueInfo::Sequence ? "Seq<" : "Opt<")
        << (info.element ? typeOf(*info.element) : noneType) << ">";
    return opaque(spelling);
  }
  case ValueInfo::Other:
    return opaque(info.spelling);
  }
  return noneType;
}

/// Bounds the rank, and the number of bytes if all dims are constants.
bool GraphImporter::checkSize(const ValueInfo &info, std::string &error) {
  if (info.element)
    return checkSize(*info.element, error);
  if (!info.isRanked())
    return true;
  if (info.rank() > kMaxRank) {
    error = ("has " + Twine(info.rank()) + " dimensions; at most " +
             Twine(kMaxRank) + " are read")
                .str();
    return false;
  }
  // Zeros are left out: MLIR multiplies dims in any order.
  int64_t bits = 256;
  for (SymInt dim : info.dims)
    if (dim.isConstant() && dim.value != 0 &&
        llvm::MulOverflow(bits, dim.value, bits)) {
      error = "has more bytes than 64 bits can count";
      return false;
    }
  return true;
}

void GraphImporter::appendDimParams(const ValueInfo &info, std::string &text) {
  if (!info.isRanked())
    return;
  for (auto [index, dim] : llvm::enumerate(info.dims)) {
    if (!dim.isSymbol())
      continue;
    if (!text.empty())
      text += ',';
    text += llvm::utostr(index);
    text += ':';
    text += symbolNames[dim.value];
  }
}

ArrayAttr GraphImporter::dimParamsOf(ArrayRef<ValueInfo> infos) {
  if (llvm::none_of(infos, [](const ValueInfo &info) {
        return info.isRanked() && llvm::any_of(info.dims, [](SymInt dim) {
                 return dim.isSymbol();
               });
      }))
    return {};
  SmallVector<Attribute, 4> texts;
  for (const ValueInfo &info : infos) {
    scratch.clear();
    appendDimParams(info, scratch);
    charge(scratch.size());
    if (infos.size() == 1) {
      ArrayAttr &known = dimParams[scratch];
      if (!known)
        known = builder.getArrayAttr(builder.getStringAttr(scratch));
      return known;
    }
    texts.push_back(scratch.empty() ? emptyString
                                    : builder.getStringAttr(scratch));
  }
  return builder.getArrayAttr(texts);
}

std::string GraphImporter::print(const ValueInfo &info) {
  std::string text;
  llvm::raw_string_ostream(text) << typeOf(info);
  return text;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Slot *GraphImporter::slotFor(Scope &scope, StringRef name) {
  auto [entry, isNew] =
      scope.names.try_emplace(llvm::CachedHashStringRef(name), nullptr);
  if (isNew) {
    entry->second = &scope.slots.emplace_back();
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

void GraphImporter::declare(Scope &scope, const ValueInfos &infos) {
  for (const ValueInfoProto &info : infos)
    if (info.has_type() && !info.name().empty())
      slotFor(scope, info.name())->declared = &info.type();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::string GraphImporter::resourceName(StringRef name) {
  std::string result;
  for (char c : name.take_front(128))
    result += llvm::isAlnum(c) || c == '_' || c == '.' ? c : '_';
  if (result.empty() || llvm::isDigit(result.front()))
    result.insert(0, "_");
  while (!resourceNames.insert(result).second)
    result += ("_" + Twine(nextUnique++)).str();
  return result;
}

bool GraphImporter::readElements(const TensorProto &tensor, SymInts &elements,
                                 std::string &error) {
  TensorInfo info;
  SmallVector<int64_t> values;
  if (!reader.check(tensor, info, error))
    return false;
  // Not an error: such a tensor takes no part in shape computations.
  if (info.numElements > kMaxShapeElements || info.type.getRank() > 1 ||
      !info.type.getElementType().isIntOrIndex() ||
      info.type.getElementTypeBitWidth() < 8)
    return false;
  if (!reader.readIntegers(tensor, info, values, error))
    return false;
  for (int64_t value : values)
    elements.push_back(SymInt::constant(value));
  return true;
}

/// Keeps what shape computations may ask of a constant.
void GraphImporter::rememberElements(ValueInfo &info, const TensorProto &tensor,
                                     const TensorInfo &tensorInfo) {
  bool isBool = tensor.data_type() == TensorProto::BOOL;
  if (tensor.data_type() != TensorProto::INT64 &&
      tensor.data_type() != TensorProto::INT32 && !isBool)
    return;
  if (tensorInfo.numElements > kMaxShapeElements ||
      tensorInfo.type.getRank() > 1)
    return;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    if (!isBool)
      info.constant = &tensor;
    return;
  }
  SmallVector<int64_t, 8> values;
  std::string error;
  if (!reader.readIntegers(tensor, tensorInfo, values, error))
    return;
  auto elements = std::make_shared<SymInts>();
  for (int64_t value : values)
    elements->push_back(SymInt::constant(value));
  info.elements = std::move(elements);
}

static ValueInfo infoOf(const ::tandem_onnx::TensorProto &tensor) {
  ValueInfo info = ValueInfo::tensor(tensor.data_type());
  info.hasRank = true;
  for (int64_t dim : tensor.dims())
    info.dims.push_back(SymInt::constant(dim));
  return info;
}

void GraphImporter::importInitializers(Scope &scope, const GraphProto &graph,
                                       const llvm::StringSet<> &skip) {
  for (const auto &sparse : graph.sparse_initializer())
    graphError(scope, "initializer '" + sparse.values().name() +
                          "' is sparse; sparse tensors are not supported");
  for (const TensorProto &tensor : graph.initializer()) {
    if (skip.contains(tensor.name()))
      continue;
    if (tensor.name().empty()) {
      graphError(scope, "an initializer has no name");
      continue;
    }
    Slot *slot = define(scope, tensor.name(), Slot::kInitializer);
    if (!slot || !charge(256))
      continue;
    TensorInfo info;
    std::string error;
    Attribute value = reader.toAttribute(tensor, resourceName(tensor.name()),
                                         false, info, error);
    if (!value || tensor.dims_size() > kMaxRank) {
      if (value)
        error = ("has " + Twine(tensor.dims_size()) + " dimensions; at most " +
                 Twine(kMaxRank) + " are read")
                    .str();
      graphError(scope, "initializer '" + tensor.name() + "' " + error);
      slot->value = noValue(scope);
      continue;
    }
    slot->info = infoOf(tensor);
    rememberElements(slot->info, tensor, info);
    Attributes attributes;
    attributes.emplace_back(initializerName, unit);
    attributes.emplace_back(
        outputsName,
        builder.getArrayAttr({builder.getStringAttr(tensor.name())}));
    attributes.emplace_back(valueName, value);
    Location location =
        NameLoc::get(builder.getStringAttr(tensor.name()), scope.callLocation);
    slot->value =
        createOp(scope, location, constantOp, info.type, {}, attributes)
            ->getResult(0);
  }
}

//===----------------------------------------------------------------------===//
// Node order
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

Operation *
GraphImporter::createOp(Scope &scope, Location location, OperationName name,
                        TypeRange results, ValueRange operands,
                        Attributes &attributes,
                        MutableArrayRef<std::unique_ptr<Region>> regions) {
  // A node has a handful of attributes, for which this beats a general sort.
  auto byName = [](const NamedAttribute &a, const NamedAttribute &b) {
    return a.getName().getValue() < b.getName().getValue();
  };
  if (attributes.size() > 16)
    llvm::sort(attributes, byName);
  else
    for (auto at = attributes.begin(); at != attributes.end(); ++at)
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

static const char *kindName(::tandem_onnx::AttributeProto::AttributeType type) {
  using ::tandem_onnx::AttributeProto;
  switch (type) {
  case AttributeProto::FLOAT:
    return "a float";
  case AttributeProto::INT:
    return "an integer";
  case AttributeProto::STRING:
    return "a string";
  case AttributeProto::TENSOR:
    return "a tensor";
  case AttributeProto::GRAPH:
    return "a graph";
  case AttributeProto::SPARSE_TENSOR:
    return "a sparse tensor";
  case AttributeProto::TYPE_PROTO:
    return "a type";
  case AttributeProto::FLOATS:
    return "a list of floats";
  case AttributeProto::INTS:
    return "a list of integers";
  case AttributeProto::STRINGS:
    return "a list of strings";
  case AttributeProto::TENSORS:
    return "a list of tensors";
  case AttributeProto::GRAPHS:
    return "a list of graphs";
  case AttributeProto::SPARSE_TENSORS:
    return "a list of sparse tensors";
  case AttributeProto::TYPE_PROTOS:
    return "a list of types";
  case AttributeProto::UNDEFINED:
    break;
  }
  return "undefined";
}

/// Checks that the value of `attribute` is of the kind it says. Writers of
/// proto3 leave zeros and empty lists out, so an absent value is fine where
/// there is a zero.
static bool checkKind(const ::tandem_onnx::AttributeProto &attribute,
                      std::string &error) {
  using ::tandem_onnx::AttributeProto;
  const std::pair<bool, AttributeProto::AttributeType> present[] = {
      {attribute.has_f(), AttributeProto::FLOAT},
      {attribute.has_i(), AttributeProto::INT},
      {attribute.has_s(), AttributeProto::STRING},
      {attribute.has_t(), AttributeProto::TENSOR},
      {attribute.has_g(), AttributeProto::GRAPH},
      {attribute.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR},
      {attribute.has_tp(), AttributeProto::TYPE_PROTO},
      {attribute.floats_size() != 0, AttributeProto::FLOATS},
      {attribute.ints_size() != 0, AttributeProto::INTS},
      {attribute.strings_size() != 0, AttributeProto::STRINGS},
      {attribute.tensors_size() != 0, AttributeProto::TENSORS},
      {attribute.graphs_size() != 0, AttributeProto::GRAPHS},
      {attribute.sparse_tensors_size() != 0, AttributeProto::SPARSE_TENSORS},
      {attribute.type_protos_size() != 0, AttributeProto::TYPE_PROTOS},
  };
  AttributeProto::AttributeType type = attribute.type();
  if (type == AttributeProto::UNDEFINED) {
    error = "has no type";
    return false;
  }
  for (auto [isPresent, kind] : present) {
    if (isPresent && kind != type) {
      error = (Twine("says that it is ") + kindName(type) + ", but holds " +
               kindName(kind))
                  .str();
      return false;
    }
    bool mayBeAbsent = kind != AttributeProto::TENSOR &&
                       kind != AttributeProto::GRAPH &&
                       kind != AttributeProto::SPARSE_TENSOR &&
                       kind != AttributeProto::TYPE_PROTO;
    if (kind == type && !isPresent && !mayBeAbsent) {
      error = "has no value";
      return false;
    }
  }
  return true;
}

bool GraphImporter::resolveAttributes(NodeState &node) {
  llvm::StringSet<> names;
  bool isLong = node.proto.attribute_size() > 16;
  for (const AttributeProto &attribute : node.proto.attribute()) {
    StringRef name = attribute.name();
    auto refuse = [&](const Twine &why) {
      nodeError(node, "attribute '" + name + "' " + why);
      return false;
    };
    if (name.empty()) {
      nodeError(node, "an attribute has no name");
      return false;
    }
    bool isRepeated = isLong ? !names.insert(name).second
                             : llvm::any_of(node.attributes,
                                            [&](const AttributeProto *other) {
                                              return other->name() == name;
                                            });
    if (isRepeated)
      return refuse("is given twice");
    const AttributeProto *resolved = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (!node.scope.callAttributes)
        return refuse("refers to '" + attribute.ref_attr_name() +
                      "', but is in no function");
      resolved = node.scope.callAttributes->lookup(attribute.ref_attr_name());
      // The caller leaves it out, so this node does, too.
      if (!resolved)
        continue;
      if (attribute.type() != AttributeProto::UNDEFINED &&
          attribute.type() != resolved->type())
        return refuse("must be " + Twine(kindName(attribute.type())) +
                      ", but the function's caller gives " +
                      kindName(resolved->type()));
      if (resolved->name() != attribute.name()) {
        if (!charge(resolved->ByteSizeLong() * 4 + 512))
          return false;
        substituted.push_back(*resolved);
        substituted.back().set_name(attribute.name());
        resolved = &substituted.back();
      }
    }
    std::string error;
    if (!checkKind(*resolved, error))
      return refuse(error);
    node.attributes.push_back(resolved);
  }
  return true;
}

bool GraphImporter::convertAttribute(NodeState &node,
                                     const AttributeProto &proto,
                                     Attributes &attributes) {
  StringRef name = proto.name();
  auto refuse = [&](const Twine &why) {
    nodeError(node, "attribute '" + name + "' " + why);
    return false;
  };
  bool isReserved =
      name.starts_with("tandem.") || name == nodeNameName.getValue();
  bool isCustoms =
      node.kind.customName && (name == functionNameName.getValue() ||
                               name == domainNameName.getValue());
  if (isReserved || isCustoms)
    return refuse("has a name that the import uses itself");

  auto toAttribute = [&](const TensorProto &tensor) {
    TensorInfo info;
    std::string error;
    std::string resource =
        (node.proto.output_size() ? node.proto.output(0) : node.proto.name()) +
        "." + proto.name();
    Attribute value = reader.toAttribute(tensor, resourceName(resource),
                                         /*readExternal=*/true, info, error);
    if (!value)
      refuse(error);
    return value;
  };
  auto toTypeAttribute = [&](const TypeProto &type) -> Attribute {
    ValueInfo info;
    std::string error;
    if (!convertType(type, info, error) || !checkSize(info, error)) {
      refuse(error);
      return {};
    }
    return TypeAttr::get(typeOf(info));
  };

  Attribute value;
  switch (proto.type()) {
  case AttributeProto::FLOAT:
    value = builder.getF32FloatAttr(proto.f());
    break;
  case AttributeProto::INT:
    if (node.kind.isCast && name == "to") {
      Type type = proto.i() > 0 && proto.i() < kNumDataTypes
                      ? types[static_cast<int32_t>(proto.i())]
                      : Type();
      if (!type)
        return refuse("is " + Twine(proto.i()) +
                      ", which is not an element type");
      value = TypeAttr::get(type);
    } else {
      value = IntegerAttr::get(signedInt64, proto.i());
    }
    break;
  case AttributeProto::STRING:
    value = builder.getStringAttr(proto.s());
    break;
  case AttributeProto::TENSOR:
    value = toAttribute(proto.t());
    break;
  case AttributeProto::FLOATS:
    value = builder.getF32ArrayAttr(
        ArrayRef<float>(proto.floats().data(), proto.floats_size()));
    break;
  case AttributeProto::INTS: {
    SmallVector<int64_t> values(proto.ints().begin(), proto.ints().end());
    value = builder.getI64ArrayAttr(values);
    break;
  }
  case AttributeProto::STRINGS: {
    SmallVector<Attribute> values;
    for (const std::string &text : proto.strings())
      values.push_back(builder.getStringAttr(text));
    value = builder.getArrayAttr(values);
    break;
  }
  case AttributeProto::TENSORS: {
    SmallVector<Attribute> values;
    for (const TensorProto &tensor : proto.tensors()) {
      values.push_back(toAttribute(tensor));
      if (!values.back())
        return false;
    }
    value = builder.getArrayAttr(values);
    break;
  }
  case AttributeProto::TYPE_PROTO:
    value = toTypeAttribute(proto.tp());
    break;
  case AttributeProto::TYPE_PROTOS: {
    SmallVector<Attribute> values;
    for (const TypeProto &type : proto.type_protos()) {
      values.push_back(toTypeAttribute(type));
      if (!values.back())
        return false;
    }
    value = builder.getArrayAttr(values);
    break;
  }
  case AttributeProto::SPARSE_TENSOR:
  case AttributeProto::SPARSE_TENSORS:
    return refuse("is sparse; sparse tensors are not supported");
  case AttributeProto::GRAPH:
  case AttributeProto::GRAPHS:
    // These become regions.
    return true;
  case AttributeProto::UNDEFINED:
    return refuse("has no type");
  }
  if (!value)
    return false;
  attributes.emplace_back(attributeName(node.kind, name), value);
  return true;
}

StringAttr GraphImporter::attributeName(const OpKind &kind, StringRef name) {
  for (StringAttr known : kind.attributeNames)
    if (known.getValue() == name)
      return known;
  StringAttr result = builder.getStringAttr(name);
  // Nodes that each bring names of their own must not make the list long.
  if (kind.attributeNames.size() < 8)
    kind.attributeNames.push_back(result);
  return result;
}

/// Constant gives its value in one of several attributes; all become `value`.
bool GraphImporter::importConstant(NodeState &node, Attributes &attributes) {
  if (node.attributes.size() != 1 || node.proto.output_size() != 1 ||
      node.proto.input_size() != 0) {
    nodeError(node, "a Constant has one attribute, one output and no input");
    return false;
  }
  const AttributeProto &proto = *node.attributes.front();
  StringRef name = proto.name();
  ValueInfo &info = node.infos.front();
  auto refuse = [&](const Twine &why) {
    nodeError(node, "attribute '" + name + "' " + why);
    return false;
  };
  auto expect = [&](AttributeProto::AttributeType type) {
    return proto.type() == type || refuse(Twine("must be ") + kindName(type));
  };
  auto typeFor = [&](int32_t dataType, int64_t count, bool isList) {
    info = ValueInfo::tensor(dataType,
                             isList ? ArrayRef<SymInt>(SymInt::constant(count))
                                    : ArrayRef<SymInt>());
    return cast<RankedTensorType>(typeOf(info));
  };
  auto setIntegers = [&](ArrayRef<int64_t> values) {
    if (static_cast<int64_t>(values.size()) > kMaxShapeElements)
      return;
    auto elements = std::make_shared<SymInts>();
    for (int64_t value : values)
      elements->push_back(SymInt::constant(value));
    info.elements = std::move(elements);
  };

  Attribute value;
  if (name == "value") {
    if (!expect(AttributeProto::TENSOR))
      return false;
    TensorInfo tensorInfo;
    std::string error;
    value = reader.toAttribute(proto.t(), resourceName(node.proto.output(0)),
                               /*readExternal=*/false, tensorInfo, error);
    if (!value)
      return refuse(error);
    info = infoOf(proto.t());
    rememberElements(info, proto.t(), tensorInfo);
  } else if (name == "value_int") {
    if (!expect(AttributeProto::INT))
      return false;
    value = DenseElementsAttr::get(typeFor(TensorProto::INT64, 1, false),
                                   ArrayRef<int64_t>(proto.i()));
    setIntegers(proto.i());
  } else if (name == "value_ints") {
    if (!expect(AttributeProto::INTS))
      return false;
    SmallVector<int64_t> values(proto.ints().begin(), proto.ints().end());
    value = DenseElementsAttr::get(
        typeFor(TensorProto::INT64, proto.ints_size(), true),
        ArrayRef<int64_t>(values));
    setIntegers(values);
  } else if (name == "value_float") {
    if (!expect(AttributeProto::FLOAT))
      return false;
    value = DenseElementsAttr::get(typeFor(TensorProto::FLOAT, 1, false),
                                   ArrayRef<float>(proto.f()));
  } else if (name == "value_floats") {
    if (!expect(AttributeProto::FLOATS))
      return false;
    value = DenseElementsAttr::get(
        typeFor(TensorProto::FLOAT, proto.floats_size(), true),
        ArrayRef<float>(proto.floats().data(), proto.floats_size()));
  } else if (name == "value_string" || name == "value_strings") {
    bool isList = name == "value_strings";
    if (!expect(isList ? AttributeProto::STRINGS : AttributeProto::STRING))
      return false;
    SmallVector<StringRef> values;
    if (isList)
      values.append(proto.strings().begin(), proto.strings().end());
    else
      values.push_back(proto.s());
    value = DenseElementsAttr::get(typeFor(TensorProto::STRING,
                                           static_cast<int64_t>(values.size()),
                                           isList),
                                   values);
  } else if (name == "sparse_value") {
    return refuse("is sparse; sparse tensors are not supported");
  } else {
    return refuse("is not one that a Constant has");
  }
  attributes.emplace_back(valueName, value);
  return true;
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
  NodeState node{proto, index, kind, scope, location, inputs, outputs, {}, {}};
  node.infos.resize(outputs.size());
  if (!charge(256 + 48 * (inputs.size() + outputs.size())))
    return;
  if (!kind.problem.empty()) {
    nodeError(node, kind.problem);
    return abandon(node);
  }
  if (!resolveAttributes(node))
    return abandon(node);
  if (kind.function)
    return inlineFunction(node);

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
    if (kind.infer && !inferOutputs(node))
      return abandon(node);
  }

  SmallVector<Type, 4> resultTypes;
  SmallVector<Attribute, 4> outputNames;
  for (size_t i = 0; i != outputs.size(); ++i) {
    if (!finishOutput(node, i))
      return abandon(node);
    resultTypes.push_back(typeOf(node.infos[i]));
    outputNames.push_back(outputs[i] ? outputName(scope, outputs[i]->name)
                                     : emptyString);
  }
  if (ArrayAttr names = dimParamsOf(node.infos))
    attributes.emplace_back(dimParamsName, names);
  if (failedBudget)
    return;
  if (!outputNames.empty())
    attributes.emplace_back(outputsName, builder.getArrayAttr(outputNames));
  if (nodeName)
    attributes.emplace_back(nodeNameName, nodeName);
  if (kind.customName) {
    attributes.emplace_back(functionNameName, kind.customName);
    attributes.emplace_back(domainNameName, kind.customDomain);
  }
  SmallVector<Value, 4> operands;
  for (const Slot *slot : inputs)
    operands.push_back(valueOf(scope, slot));
  Operation *op = createOp(scope, location, kind.name, resultTypes, operands,
                           attributes, regions);
  for (size_t i = 0; i != outputs.size(); ++i) {
    if (!outputs[i])
      continue;
    outputs[i]->value = op->getResult(static_cast<unsigned>(i));
    outputs[i]->info = std::move(node.infos[i]);
  }
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

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
  declare(scope, graph.value_info());
  declare(scope, graph.output());
  size_t position = 0;
  for (const ValueInfoProto &input : graph.input()) {
    bool isFed = position < given.size();
    if (!isFed && initializers.contains(input.name()))
      continue;
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
  }
  if (!names.empty())
    attributes.emplace_back(regionsName, builder.getArrayAttr(names));
  return true;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

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
