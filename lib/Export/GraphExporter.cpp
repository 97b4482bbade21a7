//===- GraphExporter.cpp - MLIR regions to ONNX graphs -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphExporter.h"

#include "ExtraFields.h"

#include "tandem/OnnxOps/CallBody.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::TensorProto;
using ::tandem_onnx::ValueInfoProto;

/// Ops that compute with sizes and conditions, or do nothing in ONNX. Written
/// only where something reads them.
static bool isHelper(Operation &op) {
  return isa<tensor::CastOp, tensor::EmptyOp, tensor::DimOp,
             tensor::CollapseShapeOp, arith::ConstantOp, arith::MulIOp,
             arith::CmpIOp, arith::AndIOp, arith::MinSIOp, arith::IndexCastOp,
             TokenLimitOp>(op);
}

static bool isOnnx(Operation &op) {
  return op.getName().getDialectNamespace() == "onnx";
}

static bool isOnnx(Operation &op, StringRef type) {
  return isOnnx(op) && op.getName().stripDialect() == type;
}

static bool hasSource(Operation &op) {
  return isa<AllReduceOp, AddOp, RMSNormOp>(op) && !op.getRegion(0).empty();
}

/// Whether `op` can be written as ONNX.
static bool hasOnnxForm(Operation &op) {
  if (isOnnx(op))
    return true;
  if (isa<AllReduceOp, AddOp, RMSNormOp>(op))
    return !hasSource(op) &&
           op.getNumOperands() == (isa<AllReduceOp>(op) ? 1 : 2);
  if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
    return !fused.getWorkspace() && !fused.getStream();
  if (auto limit = dyn_cast<TokenLimitOp>(op))
    return !limit.getWorkspace();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<IntegerAttr>(constant.getValue());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compare.getPredicate() < arith::CmpIPredicate::ult;
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    return dim.getConstantIndex().has_value();
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return collapse.getResultType().getRank() == 1;
  return isHelper(op) || isa<func::FuncOp, func::ReturnOp, func::CallOp,
                             scf::IfOp, scf::YieldOp>(op);
}

GraphExporter::GraphExporter(ModuleOp module, ::tandem_onnx::ModelProto &model,
                             const OnnxExportOptions &options)
    : module(module), model(model), options(options),
      converter(module.getContext()), symbols(module), saver(allocator) {}

bool GraphExporter::fail(Operation &op, const Twine &message) {
  InFlightDiagnostic diagnostic = emitError(op.getLoc());
  diagnostic << "cannot be exported to ONNX: ";
  if (auto name = op.getAttrOfType<StringAttr>("onnx_node_name"))
    diagnostic << "node '" << name.getValue() << "' (" << op.getName() << "): ";
  else
    diagnostic << op.getName() << ": ";
  diagnostic << message;
  return false;
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

LogicalResult GraphExporter::findFunction() {
  fields = module->getAttrOfType<DictionaryAttr>("tandem.onnx");
  if (!fields)
    return emitError(module.getLoc())
           << "the module has no attribute 'tandem.onnx': only what came from "
              "an ONNX model can be exported to ONNX";
  main = symbols.lookup<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(module.getLoc()) << "there is no function @main to export";
  return functions.load(fields, module.getLoc());
}

LogicalResult GraphExporter::checkOps() {
  struct Entry {
    unsigned count = 0;
    Operation *first = nullptr;
  };
  llvm::MapVector<OperationName, Entry> bad;
  bool isRaised = false;
  auto add = [&](Operation &op) {
    Entry &entry = bad[op.getName()];
    if (entry.count++ == 0)
      entry.first = &op;
    isRaised |= hasSource(op);
  };
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == module)
      return WalkResult::advance();
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      bool isGood = function.isExternal() || function.getBody().hasOneBlock();
      for (Type type : function.getArgumentTypes())
        isGood &= isa<TensorType, OpaqueType, NoneType>(type);
      if (!isGood)
        add(*op);
      return WalkResult::advance();
    }
    if (!hasOnnxForm(*op)) {
      add(*op);
      return WalkResult::skip();
    }
    for (Region &region : op->getRegions()) {
      bool isGood = region.empty() || region.hasOneBlock();
      if (isOnnx(*op))
        isGood = region.hasOneBlock() && !region.front().empty() &&
                 isOnnx(region.front().back(), "Yield");
      if (!isGood)
        add(*op);
    }
    return WalkResult::advance();
  });
  if (bad.empty()) {
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() &&
          (function.front().empty() ||
           !isa<func::ReturnOp>(function.front().back())))
        return emitError(function.getLoc())
               << "function @" << function.getSymName()
               << " does not end in func.return";
    return success();
  }
  InFlightDiagnostic diagnostic = emitError(module.getLoc());
  diagnostic << "the module has ops without an ONNX form:";
  const char *separator = " ";
  for (auto &[name, entry] : bad) {
    diagnostic << separator << name;
    if (auto function = dyn_cast<func::FuncOp>(entry.first))
      diagnostic << " @" << function.getSymName()
                 << " (several blocks, or arguments that are no tensors)";
    if (entry.count > 1)
      diagnostic << " (" << entry.count << " times)";
    separator = ", ";
  }
  if (isRaised)
    diagnostic << "; run tandem-restore first";
  for (auto &[name, entry] : bad)
    diagnostic.attachNote(entry.first->getLoc())
        << "the first " << name << " is here";
  return failure();
}

static StringRef textOf(DictionaryAttr entries, StringRef name) {
  auto text = entries ? entries.getAs<StringAttr>(name) : StringAttr();
  return text ? text.getValue() : StringRef();
}

LogicalResult GraphExporter::writeModelFields() {
  auto text = [&](StringRef name) { return textOf(fields, name); };
  auto set = [&](StringRef name, auto &&setter) {
    if (auto value = fields.getAs<StringAttr>(name))
      setter(value.getValue().str());
  };
  auto version = fields.getAs<IntegerAttr>("ir_version");
  model.set_ir_version(version ? version.getInt() : 10);
  set("producer_name",
      [&](const std::string &v) { model.set_producer_name(v); });
  set("producer_version",
      [&](const std::string &v) { model.set_producer_version(v); });
  set("domain", [&](const std::string &v) { model.set_domain(v); });
  set("doc_string", [&](const std::string &v) { model.set_doc_string(v); });
  if (auto number = fields.getAs<IntegerAttr>("model_version"))
    model.set_model_version(number.getInt());
  auto &graph = *model.mutable_graph();
  set("graph_name", [&](const std::string &v) { graph.set_name(v); });
  set("graph_doc_string",
      [&](const std::string &v) { graph.set_doc_string(v); });

  ::tandem_onnx::ModelProto extra;
  if (StringRef bytes = text("extra");
      !extra.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return emitError(module.getLoc())
           << "'extra' in the attribute 'tandem.onnx' is not part of a "
              "serialized model";
  model.mutable_training_info()->Swap(extra.mutable_training_info());
  model.mutable_configuration()->Swap(extra.mutable_configuration());
  usualExtra = text("node_extra").str();
  if (auto orders = fields.getAs<DictionaryAttr>("attribute_orders"))
    for (NamedAttribute entry : orders)
      if (auto names = dyn_cast<ArrayAttr>(entry.getValue()))
        attributeOrders[entry.getName().getValue()] = names;
  writeOpsets(extra);
  auto addMetadata = [](DictionaryAttr entries, auto *props, StringRef except) {
    if (!entries)
      return;
    for (NamedAttribute entry : entries) {
      auto value = dyn_cast<StringAttr>(entry.getValue());
      if (!value || entry.getName() == except)
        continue;
      auto *added = props->Add();
      added->set_key(entry.getName().str());
      added->set_value(value.getValue().str());
    }
  };
  auto signature = module->getAttrOfType<ArrayAttr>("tandem.signature");
  addMetadata(fields.getAs<DictionaryAttr>("metadata_props"),
              model.mutable_metadata_props(),
              signature ? "tandem.signature" : "");
  onnx::addMetadata(extra.metadata_props(), *model.mutable_metadata_props());
  addMetadata(fields.getAs<DictionaryAttr>("graph_metadata_props"),
              graph.mutable_metadata_props(), "");
  if (signature) {
    // What the ranks' files decided, to be compared.
    std::string lines;
    for (Attribute line : signature)
      if (auto value = dyn_cast<StringAttr>(line))
        lines += (lines.empty() ? "" : "\n") + value.getValue().str();
    auto *added = model.add_metadata_props();
    added->set_key("tandem.signature");
    added->set_value(lines);
  }
  return success();
}

void GraphExporter::writeOpsets(const ::tandem_onnx::ModelProto &extra) {
  llvm::MapVector<StringRef, int64_t, llvm::StringMap<unsigned>> versions;
  if (auto imports = fields.getAs<DictionaryAttr>("opset_imports"))
    for (NamedAttribute entry : imports)
      if (auto number = dyn_cast<IntegerAttr>(entry.getValue()))
        versions[entry.getName().getValue()] = number.getInt();
  if (auto *own = versions.find("ai.onnx"); own != versions.end())
    opset = own->second;
  // In the source's order and spelling, where they are not the usual ones.
  llvm::StringSet<> written;
  for (const auto &import : extra.opset_import()) {
    StringRef domain = domainName(import.domain());
    auto *known = versions.find(domain);
    if (known == versions.end() || known->second != import.version())
      continue;
    *model.add_opset_import() = import;
    written.insert(domain);
  }
  for (auto &[domain, version] : versions) {
    if (written.contains(domain))
      continue;
    auto *import = model.add_opset_import();
    import->set_domain(canonicalDomain(domain).str());
    import->set_version(version);
  }
}

static StringRef argText(func::FuncOp function, unsigned index,
                         StringRef name) {
  auto value = function.getArgAttrOfType<StringAttr>(index, name);
  return value ? value.getValue() : StringRef();
}

static StringRef resultText(func::FuncOp function, unsigned index,
                            StringRef name) {
  auto value = function.getResultAttrOfType<StringAttr>(index, name);
  return value ? value.getValue() : StringRef();
}

/// Sorts by the list of names that `entries` may have; what is not in it comes
/// last.
template <typename Iterator, typename NameOf>
static void orderByName(DictionaryAttr entries, StringRef list, Iterator begin,
                        const Iterator &end, NameOf nameOf) {
  auto order = entries ? entries.getAs<ArrayAttr>(list) : ArrayAttr();
  if (!order)
    return;
  llvm::StringMap<size_t> places;
  for (auto [place, name] : llvm::enumerate(order))
    if (auto text = dyn_cast<StringAttr>(name))
      places.try_emplace(text.getValue(), place);
  using Value = typename std::iterator_traits<Iterator>::value_type;
  std::vector<std::pair<std::pair<size_t, size_t>, Value>> sorted;
  for (Iterator at = begin; at != end; ++at) {
    auto place = places.find(nameOf(*at));
    size_t rank = place == places.end() ? order.size() : place->second;
    sorted.emplace_back(std::pair(rank, sorted.size()), std::move(*at));
  }
  llvm::sort(sorted, llvm::less_first());
  for (auto &entry : sorted)
    *begin++ = std::move(entry.second);
}

/// Adds to a graph that is complete what the source said of its values and is
/// kept in `entries`. Returns the entry that can't be read, or "".
static StringRef addKeptValues(DictionaryAttr entries, StringRef extraName,
                               tandem_onnx::GraphProto &graph,
                               ArrayRef<TensorProto *> tensors) {
  if (StringRef extra = textOf(entries, extraName);
      !extra.empty() && !addGraphExtras(extra, graph, tensors))
    return extraName;
  if (StringRef others = textOf(entries, "other_values");
      !others.empty() && !addOtherValues(others, graph))
    return "other_values";
  auto &infos = *graph.mutable_value_info();
  orderByName(
      entries, "value_info_order", infos.pointer_begin(), infos.pointer_end(),
      [](const ValueInfoProto *info) { return StringRef(info->name()); });
  return "";
}

LogicalResult GraphExporter::run() {
  if (failed(findFunction()) || failed(checkOps()) ||
      failed(writeModelFields()))
    return failure();
  converter.setDimNames(fields.getAs<DictionaryAttr>("dim_names"));
  tandemOps = std::make_unique<TandemOpWriter>(module, model, converter, opset);
  for (const auto &function : functions.getFunctions())
    tandemOps->know(function);

  module.walk([&](Operation *op) {
    bool isGiven = hasGivenNames(op);
    if (auto list = op->getAttrOfType<ArrayAttr>("tandem.outputs"))
      for (Attribute name : list)
        if (auto text = dyn_cast<StringAttr>(name)) {
          reserved.insert(text.getValue());
          if (isGiven)
            givenNames.insert(text.getValue());
        }
    if (auto name = op->getAttrOfType<StringAttr>("onnx_node_name")) {
      reservedNodes.insert(name.getValue());
      if (isGiven)
        givenNodes.insert(name.getValue());
    }
    if (auto bodies = op->getAttrOfType<ArrayAttr>("tandem.bodies"))
      for (Attribute body : bodies)
        if (auto entries = dyn_cast<DictionaryAttr>(body))
          if (auto inputs = entries.getAs<ArrayAttr>("inputs"))
            for (Attribute input : inputs)
              if (auto text = dyn_cast<StringAttr>(input))
                reserved.insert(text.getValue());
  });
  for (const SourceFunctions::Call &call : functions.getCalls()) {
    reservedNodes.insert(call.name);
    if (call.parent < 0)
      givenNodes.insert(call.name);
  }
  for (unsigned i = 0, e = main.getNumArguments(); i != e; ++i) {
    StringRef name = argText(main, i, "onnx.name");
    reserved.insert(name);
    mayClash |= !claimed.insert(name).second;
    inputNames.insert(name);
  }
  for (unsigned i = 0, e = main.getNumResults(); i != e; ++i) {
    reserved.insert(resultText(main, i, "onnx.name"));
    mayClash |= !claimed.insert(resultText(main, i, "onnx.name")).second;
  }

  hasFused =
      module.walk([](FusedAllReduceNormOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  findHelpers();
  GraphProto &graph = *model.mutable_graph();
  Scope scope = makeScope(&graph, fields);
  scope.ownsInitializers = true;
  scope.site = "tandem";
  Block &body = main.getBody().front();
  auto terminator = cast<func::ReturnOp>(body.back());
  for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
    Operation *definition = value.getDefiningOp();
    StringRef name = resultText(main, index, "onnx.name");
    if (definition && !name.empty() && !inputNames.contains(name) &&
        definition->getBlock() == &body && !isHelper(*definition) &&
        !isa<func::CallOp>(definition) &&
        !definition->hasAttr("tandem.initializer"))
      outputNames.try_emplace(value, name);
  }
  if (!writeInputs(scope) || !emitBlock(body, scope) ||
      !writeOutputs(scope, terminator) || failed(checkNames()) ||
      failed(checkAllReduces()))
    return failure();
  orderByName(fields, "initializer_order", initializers.begin(),
              initializers.end(), [](const Initializer &initializer) {
                return StringRef(initializer.proto.name());
              });
  auto &sparse = *graph.mutable_sparse_initializer();
  orderByName(
      fields, "sparse_order", sparse.pointer_begin(), sparse.pointer_end(),
      [](const auto *tensor) { return StringRef(tensor->values().name()); });
  SmallVector<TensorProto *> tensors;
  for (Initializer &initializer : initializers)
    tensors.push_back(&initializer.proto);
  if (StringRef bad = addKeptValues(fields, "graph_extra", graph, tensors);
      !bad.empty())
    return emitError(module.getLoc())
           << "'" << bad
           << "' in the attribute 'tandem.onnx' is not part of a "
              "serialized graph";
  functions.addTo(model, tandemOps->isUsed());
  if (tandemOps->isUsed()) {
    bool isImported =
        llvm::any_of(model.opset_import(), [](const auto &import) {
          return import.domain() == onnxDomain;
        });
    if (!isImported) {
      auto *import = model.add_opset_import();
      import->set_domain(onnxDomain.str());
      import->set_version(onnxDomainVersion);
    }
    // Functions came with IR version 8.
    model.set_ir_version(std::max<int64_t>(model.ir_version(), 8));
  }
  return success();
}

LogicalResult GraphExporter::checkAllReduces() {
  // Fused ops don't know which call they come from. What is left of a call's
  // own nodes was checked as it was written.
  const auto &nodes = tandemOps->getAllReduceNodes();
  if (nodes.empty())
    return success();
  int64_t numCalls = static_cast<int64_t>(functions.getCalls().size());
  for (int64_t number = 0; number != numCalls; ++number) {
    unsigned count = 0;
    int64_t at = number;
    while (const SourceFunctions::Call *call = functions.getCall(at)) {
      count += numWritten.lookup(at);
      at = call->parent;
    }
    if (count >= std::max(numVersions, 1u))
      continue;
    for (const auto &[domain, type] : nodes)
      if (std::string why = functions.getOpsetConflict(number, domain, type);
          !why.empty())
        return emitError(main.getLoc())
               << "cannot be exported to ONNX: " << type << ": " << why;
  }
  return success();
}

GraphExporter::Scope GraphExporter::makeScope(GraphProto *graph,
                                              DictionaryAttr entries) {
  Scope scope;
  scope.graph = graph;
  if (entries)
    scope.declared = entries.getAs<DictionaryAttr>("value_info");
  if (scope.declared)
    if (auto except = scope.declared.getAs<ArrayAttr>("except"))
      for (Attribute name : except)
        if (auto text = dyn_cast<StringAttr>(name))
          scope.exceptions.insert(text.getValue());
  return scope;
}

bool GraphExporter::writeInputs(Scope &scope) {
  GraphProto &graph = *scope.graph;
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    StringRef given = argText(main, index, "onnx.name");
    std::string name = given.empty() ? freshValue("input", scope) : given.str();
    claimed.insert(name);
    setName(argument, name);
    ValueInfoProto &info = *graph.add_input();
    info.set_name(name);
    argumentDims[argument] = argText(main, index, "onnx.dim_params");
    writeValueInfo(argument, dimParamsOf(argument), info);
    if (auto sparse =
            main.getArgAttrOfType<StringAttr>(index, "tandem.default")) {
      auto &tensor = *graph.add_sparse_initializer();
      if (!converter.toSparseTensor(sparse, tensor)) {
        emitError(main.getLoc()) << "the default of input '" << name
                                 << "' is no serialized sparse tensor";
        return false;
      }
      tensor.mutable_values()->set_name(name);
    } else if (Attribute value = main.getArgAttr(index, "tandem.default")) {
      Initializer &initializer = initializers.emplace_back();
      initializer.proto.set_name(name);
      std::string error;
      if (converter.toTensor(value, argument.getType(), initializer.proto,
                             initializer.data, error))
        continue;
      // Declared with another type than its default: the value knows its own.
      initializers.pop_back();
      if (auto elements = dyn_cast<ElementsAttr>(value)) {
        Initializer &again = initializers.emplace_back();
        again.proto.set_name(name);
        if (converter.toTensor(value, elements.getShapedType(), again.proto,
                               again.data, error))
          continue;
        initializers.pop_back();
      }
      emitWarning(main.getLoc()) << "the default of input '" << name << "' "
                                 << error << "; it is left out";
    }
  }
  return true;
}

/// The block argument that `value` is, if it is one whatever versions of a
/// function it goes through.
Value GraphExporter::findArgument(Value value) const {
  while (true) {
    auto result = dyn_cast<OpResult>(value);
    if (!result)
      return value;
    Operation *op = result.getOwner();
    unsigned index = result.getResultNumber();
    if (isa<tensor::CastOp>(op)) {
      value = op->getOperand(0);
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      Block &body = callee.getBody().front();
      auto argument = dyn_cast_if_present<BlockArgument>(
          findArgument(body.back().getOperand(index)));
      if (!argument || argument.getOwner() != &body)
        return {};
      value = call.getOperand(argument.getArgNumber());
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Value argument = findArgument(branch.thenYield().getOperand(index));
      return argument == findArgument(branch.elseYield().getOperand(index))
                 ? argument
                 : Value();
    } else {
      return {};
    }
  }
}

bool GraphExporter::writeOutputs(Scope &scope, func::ReturnOp terminator) {
  GraphProto &graph = *scope.graph;
  for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
    StringRef given = resultText(main, index, "onnx.name");
    std::string name = given.empty() ? nameOf(value).str() : given.str();
    ValueInfoProto &info = *graph.add_output();
    info.set_name(name);
    writeValueInfo(value, resultText(main, index, "onnx.dim_params"), info);
    if (inputNames.contains(name)) {
      auto argument = dyn_cast_if_present<BlockArgument>(findArgument(value));
      if (!argument || nameOf(argument) != name) {
        emitError(main.getLoc())
            << "output '" << name
            << "' has the name of an input, but is another value";
        return false;
      }
      continue;
    }
    if (nameOf(value) == name)
      continue;
    NodeProto &node = *graph.add_node();
    node.set_op_type("Identity");
    node.set_name(freshNode("output", scope));
    node.add_input(nameOf(value).str());
    node.add_output(name);
  }
  // Before IR version 4, initializers had to be inputs, too.
  if (model.ir_version() >= 4)
    return true;
  llvm::StringMap<ValueInfoProto> inputs;
  SmallVector<StringRef> order;
  auto add = [&](StringRef name, ValueInfoProto &&info) {
    auto [entry, isNew] = inputs.try_emplace(name, std::move(info));
    if (isNew)
      order.push_back(entry->getKey());
  };
  for (ValueInfoProto &info : *graph.mutable_input())
    add(info.name(), std::move(info));
  auto addInitializer = [&](const TensorProto &tensor, const auto &dims) {
    ValueInfoProto info;
    info.set_name(tensor.name());
    auto &type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    type.mutable_shape();
    for (int64_t dim : dims)
      type.mutable_shape()->add_dim()->set_dim_value(dim);
    add(tensor.name(), std::move(info));
  };
  for (const auto &sparse : graph.sparse_initializer())
    addInitializer(sparse.values(), sparse.dims());
  for (Initializer &initializer : initializers)
    addInitializer(initializer.proto, initializer.proto.dims());
  graph.clear_input();
  llvm::StringSet<> done;
  auto write = [&](StringRef name) {
    if (inputs.count(name) && done.insert(name).second)
      *graph.add_input() = inputs[name];
  };
  if (auto listed = fields.getAs<ArrayAttr>("inputs"))
    for (Attribute name : listed)
      if (auto text = dyn_cast<StringAttr>(name))
        write(text.getValue());
  for (StringRef name : order)
    write(name);
  return true;
}

//===----------------------------------------------------------------------===//
// Names and types
//===----------------------------------------------------------------------===//

/// A name that stands for two values of `graph`, or of a graph in it; "" if
/// there is none. `constants` are initializers of `graph` beside its own.
static StringRef findClash(const tandem_onnx::GraphProto &graph,
                           ArrayRef<StringRef> constants) {
  llvm::StringSet<> inputs, others;
  for (const ValueInfoProto &input : graph.input())
    if (!inputs.insert(input.name()).second)
      return input.name();
  auto add = [&](StringRef name) { return others.insert(name).second; };
  // Constants may be the inputs' defaults.
  for (StringRef name : constants)
    if (!add(name))
      return name;
  for (const TensorProto &tensor : graph.initializer())
    if (!add(tensor.name()))
      return tensor.name();
  for (const auto &tensor : graph.sparse_initializer())
    if (!add(tensor.values().name()))
      return tensor.values().name();
  for (const auto &node : graph.node()) {
    for (const std::string &output : node.output())
      if (!output.empty() && (inputs.contains(output) || !add(output)))
        return output;
    for (const AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g())
        if (StringRef name = findClash(attribute.g(), {}); !name.empty())
          return name;
      for (const auto &body : attribute.graphs())
        if (StringRef name = findClash(body, {}); !name.empty())
          return name;
    }
  }
  return {};
}

LogicalResult GraphExporter::checkNames() {
  if (!mayClash)
    return success();
  SmallVector<StringRef> constants;
  for (const Initializer &initializer : initializers)
    constants.push_back(initializer.proto.name());
  StringRef name = findClash(model.graph(), constants);
  if (name.empty())
    return success();
  return emitError(main.getLoc())
         << "two values of one graph have the name '" << name << "'";
}

unsigned GraphExporter::nextNumber(StringRef base) {
  return 2 + numbers[base]++;
}

std::string GraphExporter::fresh(StringRef hint, llvm::StringSet<> &used,
                                 Scope &scope) {
  std::string base =
      scope.site.empty() ? hint.str() : scope.site + "/" + hint.str();
  llvm::StringSet<> &known = &used == &claimed ? reserved : reservedNodes;
  std::string name = base;
  while (known.contains(name) || !used.insert(name).second)
    name = base + "_" + llvm::utostr(nextNumber(base));
  return name;
}

std::string GraphExporter::freshValue(StringRef hint, Scope &scope) {
  return fresh(hint, claimed, scope);
}

std::string GraphExporter::freshNode(StringRef hint, Scope &scope) {
  return fresh(hint, claimedNodes, scope);
}

/// Whether a node's names are the file's. What was inlined from a function or
/// made by a pass has names that give way.
bool GraphExporter::hasGivenNames(Operation *op) {
  return isOnnx(*op) && !op->hasAttr(callAttrName);
}

std::string GraphExporter::claim(StringRef name, Scope &scope, bool isGiven) {
  if (name.empty())
    return {};
  // In graphs beside each other the same name may stand for two values.
  bool isFree =
      (isGiven || !givenNames.contains(name)) && claimed.insert(name).second;
  if (isFree || (isGiven && !scope.isStrict)) {
    mayClash |= !isFree;
    return name.str();
  }
  std::string changed;
  for (;;) {
    changed = (name + "_" + Twine(nextNumber(name))).str();
    if (!reserved.contains(changed) && claimed.insert(changed).second)
      return changed;
  }
}

std::string GraphExporter::claimNode(StringRef name, Scope &scope,
                                     bool isGiven) {
  if (name.empty())
    return {};
  bool isFree = (isGiven || !givenNodes.contains(name)) &&
                claimedNodes.insert(name).second;
  if (isFree || (isGiven && !scope.isStrict))
    return name.str();
  for (;;) {
    std::string text = (name + "_" + Twine(nextNumber(name))).str();
    if (!reservedNodes.contains(text) && claimedNodes.insert(text).second)
      return text;
  }
}

std::string GraphExporter::claimNode(Operation &op, Scope &scope) {
  auto name = op.getAttrOfType<StringAttr>("onnx_node_name");
  return name ? claimNode(name.getValue(), scope, hasGivenNames(&op))
              : std::string();
}

void GraphExporter::nameResult(OpResult result, Scope &scope, StringRef hint,
                               bool isGivenName) {
  if (StringRef name = outputNames.lookup(result); !name.empty())
    return setName(result, name);
  auto given = result.getOwner()->getAttrOfType<ArrayAttr>("tandem.outputs");
  bool isGiven = given && result.getResultNumber() < given.size();
  StringRef name;
  if (isGiven)
    if (auto text = dyn_cast<StringAttr>(given[result.getResultNumber()]))
      name = text.getValue();
  if (!name.empty())
    setName(result, claim(name, scope,
                          isGivenName || hasGivenNames(result.getOwner())));
  else if (isGiven && result.use_empty())
    setName(result, "");
  else
    setName(result, freshValue(hint, scope));
}

void GraphExporter::nameResults(Operation &op, Scope &scope, StringRef hint) {
  for (OpResult result : op.getResults())
    nameResult(result, scope, hint);
}

bool GraphExporter::writeValueInfo(Value value, StringRef dimParams,
                                   ValueInfoProto &info) {
  ::tandem_onnx::TypeProto type;
  if (!converter.toType(value.getType(), dimParams, type))
    return false;
  *info.mutable_type() = std::move(type);
  return true;
}

StringRef GraphExporter::dimParamsOf(Value value) const {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return argumentDims.lookup(value);
  auto list = result.getOwner()->getAttrOfType<ArrayAttr>("tandem.dim_params");
  if (!list || result.getResultNumber() >= list.size())
    return {};
  auto text = dyn_cast<StringAttr>(list[result.getResultNumber()]);
  return text ? text.getValue() : StringRef();
}

void GraphExporter::declare(Value value, StringRef kind, Scope &scope,
                            bool isNeeded) {
  StringRef name = nameOf(value);
  if (name.empty() || outputNames.count(value))
    return;
  if (scope.declared) {
    bool isDeclared = false;
    if (auto kinds = scope.declared.getAs<ArrayAttr>("declared"))
      isDeclared = llvm::any_of(kinds, [&](Attribute entry) {
        auto text = dyn_cast<StringAttr>(entry);
        return text && text.getValue() == kind;
      });
    if (isDeclared == scope.exceptions.contains(name) &&
        !(isNeeded && hasFused))
      return;
  }
  ValueInfoProto info;
  info.set_name(name.str());
  if (writeValueInfo(value, dimParamsOf(value), info))
    *scope.graph->add_value_info() = std::move(info);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void GraphExporter::findHelpers() {
  // The checks that are left out first: what they read may be left out, too.
  if (options.guard == ExportedGuard::Op)
    module.walk([&](scf::IfOp branch) {
      std::optional<int64_t> maxTokens;
      if (matchOwnGuard(*branch, maxTokens))
        ownGuards.insert(branch);
    });
  SmallVector<Operation *> worklist;
  auto mark = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && isHelper(*op) && needed.insert(op).second)
      worklist.push_back(op);
  };
  module.walk([&](Operation *op) {
    if (isHelper(*op) || ownGuards.contains(op))
      return;
    auto fused = dyn_cast<FusedAllReduceNormOp>(op);
    for (OpOperand &operand : op->getOpOperands())
      if (!fused || !fused.isDpsInit(&operand))
        mark(operand.get());
  });
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands())
      mark(operand);
}

/// Whether `op`, or an op within it, may have effects: what it is beside others
/// of which this holds must keep its place among them.
static bool mayCommunicate(Operation &op) {
  auto result = op.walk([](Operation *inner) {
    bool isPlain = inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                   inner->hasTrait<OpTrait::IsTerminator>() ||
                   (isOnnx(*inner) ? !isOnnx(*inner, "Custom")
                                   : isMemoryEffectFree(inner));
    return isPlain ? WalkResult::advance() : WalkResult::interrupt();
  });
  return result.wasInterrupted();
}

/// Whether `ops` of `block` may stand where the first of them does: none passes
/// an op between them whose order to it the ranks may depend on.
static bool canStandTogether(Block &block, ArrayRef<Operation *> ops) {
  bool isPassed = false;
  const auto *next = ops.begin();
  for (Operation &op :
       llvm::make_range(ops.front()->getIterator(), block.end())) {
    if (next == ops.end())
      break;
    bool isOwn = &op == *next;
    next += isOwn;
    if ((isOwn ? isPassed : !isPassed) && mayCommunicate(op)) {
      if (isOwn)
        return false;
      isPassed = true;
    }
  }
  return true;
}

bool GraphExporter::emitBlock(Block &block, Scope &scope) {
  BlockCalls calls(block, functions);
  llvm::SmallPtrSet<Operation *, 8> written;
  // MLIR does not know that onnx.Yield is a terminator.
  for (Operation &op : llvm::drop_end(block)) {
    for (int64_t call : calls.startingAt(&op)) {
      ArrayRef<Operation *> ops = calls.opsOf(call);
      if (!written.contains(&op) &&
          emitFunctionCall(*functions.getCall(call), block, ops, scope)) {
        written.insert(ops.begin(), ops.end());
        ++numWritten[call];
      }
    }
    if (!written.contains(&op) && !emitOp(op, scope))
      return false;
  }
  return true;
}

bool GraphExporter::emitOp(Operation &op, Scope &scope) {
  if (isOnnx(op)) {
    if (isOnnx(op, "NoValue")) {
      for (Value result : op.getResults())
        setName(result, "");
      return true;
    }
    if (isOnnx(op, "Constant"))
      return op.hasAttr("tandem.initializer") ? emitInitializer(op, scope)
                                              : emitConstant(op, scope);
    return emitNode(op, scope);
  }
  if (isa<tensor::CastOp, arith::IndexCastOp>(op)) {
    setName(op.getResult(0), nameOf(op.getOperand(0)));
    return true;
  }
  if (isa<tensor::EmptyOp>(op) || (isHelper(op) && !needed.contains(&op)))
    return true;
  if (isa<tensor::DimOp>(op)) {
    emitDim(op, scope);
    return true;
  }
  if (op.getName().getDialectNamespace() == "arith") {
    emitArith(op, scope);
    return true;
  }
  if (isa<scf::IfOp>(op))
    return emitBranch(op, scope);
  if (auto call = dyn_cast<func::CallOp>(op))
    return emitCall(call, scope);
  if (auto fused = dyn_cast<FusedAllReduceNormOp>(op)) {
    nameResults(op, scope, "fused");
    for (Value result : op.getResults())
      declare(result, "values", scope, /*isNeeded=*/true);
    return emitFused(fused, std::nullopt, scope);
  }

  auto newValue = [&](StringRef hint) { return freshValue(hint, scope); };
  auto newNode = [&](StringRef hint) { return freshNode(hint, scope); };
  NodeSink sink{*scope.graph->mutable_node(), newValue, newNode, opset};
  auto typeOf = [&](Value value) {
    return converter.dataType(
        cast<ShapedType>(value.getType()).getElementType());
  };
  nameResults(op, scope, op.getName().stripDialect());
  StringRef output = nameOf(op.getResult(0));
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    std::string shape = sink.integers({-1}, "shape");
    sink.add("Reshape", {nameOf(collapse.getSrc()), shape}, output);
  } else if (auto reduce = dyn_cast<AllReduceOp>(op)) {
    if (!tandemOps->writeAllReduce(sink, &op, reduce.getReductionGroup(),
                                   reduce.getReductionKind(),
                                   nameOf(reduce.getInput()), output))
      return false;
  } else if (auto add = dyn_cast<AddOp>(op)) {
    sink.add("Add", {nameOf(add.getLhs()), nameOf(add.getRhs())}, output);
  } else if (auto norm = dyn_cast<RMSNormOp>(op)) {
    writeNorm(sink,
              {typeOf(norm.getInput()), typeOf(norm.getGamma()),
               norm.getEpsilon().convertToDouble(), norm.getRounding(), ""},
              nameOf(norm.getInput()), nameOf(norm.getGamma()), output);
  } else if (auto limit = dyn_cast<TokenLimitOp>(op)) {
    NodeProto &node = sink.add("", {}, output);
    tandemOps->writeTokenLimit(limit, node);
    return true;
  } else {
    return fail(op, "it has no ONNX form");
  }
  declare(op.getResult(0), "values", scope, isa<AllReduceOp>(op));
  return true;
}

void GraphExporter::orderAttributes(NodeProto &node, ArrayAttr own) {
  auto &attributes = *node.mutable_attribute();
  if (attributes.size() < 2)
    return;
  if (!own) {
    std::string key = node.op_type();
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      key = node.domain() + "::" + key;
    if (!node.overload().empty())
      key += "::" + node.overload();
    own = attributeOrders.lookup(key);
  }
  llvm::StringMap<size_t> places;
  if (own)
    for (auto [place, name] : llvm::enumerate(own))
      if (auto text = dyn_cast<StringAttr>(name))
        places.try_emplace(text.getValue(), place);
  size_t last = own ? own.size() : 0;
  auto placeOf = [&](const AttributeProto &attribute) {
    auto place = places.find(attribute.name());
    return place == places.end() ? last : place->second;
  };
  using Entry = std::pair<size_t, AttributeProto *>;
  SmallVector<Entry> sorted;
  for (AttributeProto &attribute : attributes)
    sorted.emplace_back(placeOf(attribute), &attribute);
  llvm::sort(sorted, [](const Entry &a, const Entry &b) {
    return a.first != b.first ? a.first < b.first
                              : a.second->name() < b.second->name();
  });
  llvm::transform(sorted, attributes.pointer_begin(),
                  [](const Entry &entry) { return entry.second; });
}

bool GraphExporter::addExtras(Operation &op, NodeProto &node) {
  auto own = op.getAttrOfType<StringAttr>("tandem.extra");
  StringRef extras = own ? own.getValue() : StringRef(usualExtra);
  return extras.empty() || addNodeExtras(extras, node) ||
         fail(op, Twine(own ? "attribute 'tandem.extra'"
                            : "'node_extra' of the module's 'tandem.onnx'") +
                      " is not part of a serialized node");
}

/// What `name` stands for at the place where `block` is being written; empty if
/// nothing that is written already. Of two values of one name it is the file's
/// own if `isGiven`, else what was inlined.
StringRef GraphExporter::findName(StringRef name, Block *block, bool isGiven) {
  while (block) {
    auto [entry, isNew] = blockNames.try_emplace(block);
    BlockNames &known = entry->second;
    if (isNew) {
      for (BlockArgument argument : block->getArguments())
        known.arguments.insert(nameOf(argument));
      for (Operation &op : *block)
        if (auto list = op.getAttrOfType<ArrayAttr>("tandem.outputs"))
          for (auto [result, given] : llvm::zip(op.getResults(), list))
            if (auto text = dyn_cast<StringAttr>(given))
              (hasGivenNames(&op) ? known.given : known.others)
                  .try_emplace(text.getValue(), result);
    }
    for (auto *values : {isGiven ? &known.given : &known.others,
                         isGiven ? &known.others : &known.given})
      if (auto found = values->find(name); found != values->end())
        if (StringRef result = nameOf(found->second); !result.empty())
          return result;
    if (known.arguments.contains(name))
      return name;
    Operation *parent = block->getParentOp();
    block =
        isa_and_nonnull<func::FuncOp>(parent) ? nullptr : parent->getBlock();
  }
  return {};
}

bool GraphExporter::emitFunctionCall(const SourceFunctions::Call &call,
                                     Block &block, ArrayRef<Operation *> ops,
                                     Scope &scope) {
  CallBody body = describeCallBody(ops);
  if (body.hash != call.hash || !canStandTogether(block, ops))
    return false;
  NodeProto node;
  llvm::SmallDenseSet<Value, 8> inputs, outputs;
  for (Attribute input : call.inputs) {
    StringRef name;
    if (auto number = dyn_cast<IntegerAttr>(input)) {
      size_t index = static_cast<size_t>(number.getInt());
      if (index >= body.externals.size())
        return false;
      name = nameOf(body.externals[index]);
      inputs.insert(body.externals[index]);
    } else if (auto text = dyn_cast<StringAttr>(input); text && !text.empty()) {
      name = findName(text.getValue(), &block, call.parent < 0);
    } else {
      node.add_input("");
      continue;
    }
    if (name.empty())
      return false;
    node.add_input(name.str());
  }
  if (inputs.size() != body.externals.size())
    return false;
  SmallVector<OpResult> results;
  for (Attribute output : call.outputs) {
    auto number = dyn_cast<IntegerAttr>(output);
    int64_t index = number ? number.getInt() : -2;
    if (index < -1 || index >= static_cast<int64_t>(body.results.size()))
      return false;
    results.push_back(
        index < 0 ? OpResult()
                  : cast<OpResult>(body.results[static_cast<size_t>(index)]));
    if (index >= 0 && !outputs.insert(results.back()).second)
      return false;
  }
  llvm::SmallPtrSet<Operation *, 8> own(ops.begin(), ops.end());
  for (Value result : body.results)
    for (Operation *user : result.getUsers())
      if (!outputs.contains(result) &&
          !own.contains(block.findAncestorOpInBlock(*user)))
        return false;
  ArrayAttr order;
  if (call.attributes)
    for (NamedAttribute attribute : call.attributes) {
      StringRef name = attribute.getName().getValue();
      if (name == "tandem.order") {
        order = dyn_cast<ArrayAttr>(attribute.getValue());
        continue;
      }
      std::string error;
      if (!converter.toAttribute(name, attribute.getValue(),
                                 call.kinds ? call.kinds.get(name)
                                            : Attribute(),
                                 false, *node.add_attribute(), error))
        return false;
    }
  if (!addNodeExtras(call.extra, node))
    return false;

  node.set_op_type(call.opType.str());
  if (!call.domain.empty())
    node.set_domain(call.domain.str());
  if (!call.overload.empty())
    node.set_overload(call.overload.str());
  if (!call.name.empty())
    node.set_name(claimNode(call.name, scope, call.parent < 0));
  orderAttributes(node, order);
  NodeProto &added = *scope.graph->add_node();
  added = std::move(node);
  for (OpResult result : results) {
    if (result)
      nameResult(result, scope, "result", /*isGivenName=*/call.parent < 0);
    added.add_output(result ? nameOf(result).str() : std::string());
  }
  for (OpResult result : results)
    if (result)
      declare(result, "values", scope, /*isNeeded=*/true);
  return true;
}

bool GraphExporter::emitNode(Operation &op, Scope &scope) {
  if (std::string why = functions.getOpsetConflict(op); !why.empty())
    return fail(op, why);
  NodeProto &node = *scope.graph->add_node();
  StringRef type = op.getName().stripDialect();
  bool isCustom = type == "Custom";
  if (isCustom) {
    auto name = op.getAttrOfType<StringAttr>("function_name");
    auto domain = op.getAttrOfType<StringAttr>("domain_name");
    if (!name)
      return fail(op, "it has no attribute 'function_name'");
    type = name.getValue();
    if (domain && !domain.empty() && domain.getValue() != "ai.onnx")
      node.set_domain(domain.getValue().str());
  }
  node.set_op_type(type.str());
  if (auto overload = op.getAttrOfType<StringAttr>("tandem.overload"))
    node.set_overload(overload.getValue().str());
  if (std::string name = claimNode(op, scope); !name.empty())
    node.set_name(name);
  for (Value operand : op.getOperands())
    node.add_input(nameOf(operand).str());
  nameResults(op, scope, type);
  for (Value result : op.getResults())
    node.add_output(nameOf(result).str());

  auto kinds = op.getAttrOfType<DictionaryAttr>("tandem.kinds");
  bool isCast = !isCustom && (type == "Cast" || type == "BitCast");
  for (NamedAttribute attribute : op.getAttrs()) {
    StringRef name = attribute.getName().getValue();
    if (name.starts_with("tandem.") || name == "onnx_node_name" ||
        (isCustom && (name == "function_name" || name == "domain_name")))
      continue;
    std::string error;
    if (!converter.toAttribute(name, attribute.getValue(),
                               kinds ? kinds.get(name) : Attribute(), isCast,
                               *node.add_attribute(), error))
      return fail(op, "attribute '" + name + "' " + error);
  }
  if (kinds)
    for (NamedAttribute kind : kinds)
      if (auto text = dyn_cast<StringAttr>(kind.getValue());
          text && text.getValue() == "GRAPHS") {
        AttributeProto &attribute = *node.add_attribute();
        attribute.set_name(kind.getName().str());
        attribute.set_type(AttributeProto::GRAPHS);
      }

  // Regions. Several of one name are a list of graphs.
  auto regionNames = op.getAttrOfType<ArrayAttr>("tandem.regions");
  auto regionName = [&](unsigned index) -> StringRef {
    if (regionNames && index < regionNames.size())
      if (auto text = dyn_cast<StringAttr>(regionNames[index]))
        return text.getValue();
    if (type == "If")
      return index == 0 ? "then_branch" : "else_branch";
    return "body";
  };
  llvm::StringMap<unsigned> counts;
  for (unsigned i = 0, e = op.getNumRegions(); i != e; ++i)
    ++counts[regionName(i)];
  for (unsigned i = 0, e = op.getNumRegions(); i != e; ++i) {
    StringRef name = regionName(i);
    AttributeProto *attribute = nullptr;
    for (AttributeProto &known : *node.mutable_attribute())
      if (known.name() == name)
        attribute = &known;
    if (!attribute) {
      attribute = node.add_attribute();
      attribute->set_name(name.str());
      attribute->set_type(counts[name] > 1 ? AttributeProto::GRAPHS
                                           : AttributeProto::GRAPH);
    }
    GraphProto &graph = attribute->type() == AttributeProto::GRAPHS
                            ? *attribute->add_graphs()
                            : *attribute->mutable_g();
    if (!emitBody(op, i, graph, scope))
      return false;
  }
  orderAttributes(node, op.getAttrOfType<ArrayAttr>("tandem.order"));
  if (!addExtras(op, node))
    return false;
  for (Value result : op.getResults())
    declare(result, "values", scope,
            /*isNeeded=*/isCustom && node.domain() != onnxDomain);
  return true;
}

bool GraphExporter::emitBody(Operation &op, unsigned index, GraphProto &graph,
                             Scope &outer) {
  Region &region = op.getRegion(index);
  if (region.empty())
    return fail(op, "a region is empty");
  DictionaryAttr entries;
  if (auto bodies = op.getAttrOfType<ArrayAttr>("tandem.bodies"))
    if (index < bodies.size())
      entries = dyn_cast<DictionaryAttr>(bodies[index]);
  Scope scope = makeScope(&graph, entries);
  scope.isStrict = outer.isStrict;
  scope.ownsInitializers = true;
  scope.site = outer.site;
  StringAttr name, doc;
  ArrayAttr inputs, dims;
  if (entries) {
    dims = entries.getAs<ArrayAttr>("dim_params");
    name = entries.getAs<StringAttr>("name");
    doc = entries.getAs<StringAttr>("doc_string");
    inputs = entries.getAs<ArrayAttr>("inputs");
  }
  if (name)
    graph.set_name(name.getValue().str());
  else if (!entries)
    graph.set_name("body");
  if (doc)
    graph.set_doc_string(doc.getValue().str());
  Block &block = region.front();
  for (BlockArgument argument : block.getArguments()) {
    StringRef given;
    if (inputs && argument.getArgNumber() < inputs.size())
      if (auto text = dyn_cast<StringAttr>(inputs[argument.getArgNumber()]))
        given = text.getValue();
    setName(argument, given.empty() ? freshValue("body_input", scope)
                                    : claim(given, scope));
    ValueInfoProto &info = *graph.add_input();
    info.set_name(nameOf(argument).str());
    StringRef dimParams;
    if (dims && argument.getArgNumber() < dims.size())
      if (auto text = dyn_cast<StringAttr>(dims[argument.getArgNumber()]))
        dimParams = text.getValue();
    argumentDims[argument] = dimParams;
    writeValueInfo(argument, dimParams, info);
  }
  if (!emitBlock(block, scope))
    return false;
  llvm::StringSet<> written;
  for (Value value : block.back().getOperands()) {
    std::string output = nameOf(value).str();
    // The source may give a value twice.
    if (!written.insert(output).second && scope.isStrict) {
      NodeProto &node = *graph.add_node();
      node.set_op_type("Identity");
      node.set_name(freshNode("output", scope));
      node.add_input(output);
      output = freshValue("output", scope);
      node.add_output(output);
      written.insert(output);
    }
    ValueInfoProto &info = *graph.add_output();
    info.set_name(output);
    writeValueInfo(value, dimParamsOf(value), info);
  }
  // Outputs are declared as such.
  dropValueInfo(graph, written);
  if (StringRef bad = addKeptValues(entries, "extra", graph, {}); !bad.empty())
    return fail(op, "'" + bad +
                        "' in the attribute 'tandem.bodies' is not part "
                        "of a serialized graph");
  return true;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

bool GraphExporter::emitInitializer(Operation &op, Scope &scope) {
  Attribute sparse = op.getAttr("sparse_value");
  Attribute value = sparse ? sparse : op.getAttr("value");
  if (!value || op.getNumResults() != 1)
    return fail(op, "it has no value");
  Value result = op.getResult(0);
  auto given = op.getAttrOfType<ArrayAttr>("tandem.outputs");
  StringRef name;
  if (given && !given.empty())
    if (auto text = dyn_cast<StringAttr>(given[0]))
      name = text.getValue();
  if (scope.isStrict) {
    // The two versions of a function share their weights.
    if (!name.empty() && initializerValues.lookup(name) == value) {
      setName(result, name);
      return true;
    }
  }
  setName(result, name.empty() ? freshValue("constant", scope)
                               : claim(name, scope, hasGivenNames(&op)));
  std::string error;
  bool isInBody = scope.ownsInitializers && scope.graph != &model.graph();
  if (!isInBody && inputNames.contains(nameOf(result)))
    return fail(op, "'" + nameOf(result) + "' is the name of an input, too");
  if (sparse) {
    GraphProto &graph = isInBody ? *scope.graph : *model.mutable_graph();
    auto &tensor = *graph.add_sparse_initializer();
    if (!converter.toSparseTensor(sparse, tensor))
      return fail(op, "its 'sparse_value' is no serialized sparse tensor");
    tensor.mutable_values()->set_name(nameOf(result).str());
    if (!isInBody)
      initializerValues[nameOf(result)] = value;
    if (isInBody || (scope.graph == &model.graph() && model.ir_version() >= 4))
      declare(result, "initializers", scope);
    return true;
  }
  if (isInBody) {
    TensorProto &tensor = *scope.graph->add_initializer();
    tensor.set_name(nameOf(result).str());
    if (!converter.toInlineTensor(value, result.getType(), tensor, error))
      return fail(op, "initializer '" + nameOf(result) + "' " + error);
    declare(result, "initializers", scope);
    return true;
  }
  Initializer &initializer = initializers.emplace_back();
  initializer.proto.set_name(nameOf(result).str());
  if (!converter.toTensor(value, result.getType(), initializer.proto,
                          initializer.data, error))
    return fail(op, "initializer '" + nameOf(result) + "' " + error);
  initializerValues[nameOf(result)] = value;
  // Before IR version 4 they are inputs.
  if (scope.graph == &model.graph() && model.ir_version() >= 4)
    declare(result, "initializers", scope);
  return true;
}

bool GraphExporter::emitConstant(Operation &op, Scope &scope) {
  Attribute sparse = op.getAttr("sparse_value");
  Attribute value = sparse ? sparse : op.getAttr("value");
  if (!value || op.getNumResults() != 1)
    return fail(op, "it has no value");
  NodeProto &node = *scope.graph->add_node();
  node.set_op_type("Constant");
  if (std::string name = claimNode(op, scope); !name.empty())
    node.set_name(name);
  nameResults(op, scope, "constant");
  node.add_output(nameOf(op.getResult(0)).str());
  declare(op.getResult(0), "constants", scope);
  if (std::string why = functions.getOpsetConflict(op); !why.empty())
    return fail(op, why);
  return writeConstant(op, value, *node.add_attribute()) && addExtras(op, node);
}

bool GraphExporter::writeConstant(Operation &op, Attribute value,
                                  AttributeProto &attribute) {
  std::string error;
  if (op.hasAttr("sparse_value"))
    return converter.toAttribute(
               "sparse_value", value,
               StringAttr::get(op.getContext(), "SPARSE_TENSOR"),
               /*isCast=*/false, attribute, error) ||
           fail(op, "its 'sparse_value' " + error);
  auto form = op.getAttrOfType<StringAttr>("tandem.form");
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!form || !dense) {
    attribute.set_name("value");
    attribute.set_type(AttributeProto::TENSOR);
    // External data does not know its type.
    if (!converter.toInlineTensor(value, op.getResult(0).getType(),
                                  *attribute.mutable_t(), error))
      return fail(op, "its value " + error);
    return true;
  }
  StringRef name = form.getValue();
  attribute.set_name(name.str());
  bool isList = name.ends_with("s");
  Type element = dense.getElementType();
  if (name.starts_with("value_int") && element.isInteger(64)) {
    attribute.set_type(isList ? AttributeProto::INTS : AttributeProto::INT);
    for (int64_t value : dense.getValues<int64_t>())
      isList ? attribute.add_ints(value) : attribute.set_i(value);
  } else if (name.starts_with("value_float") && element.isF32()) {
    attribute.set_type(isList ? AttributeProto::FLOATS : AttributeProto::FLOAT);
    for (float value : dense.getValues<float>())
      isList ? attribute.add_floats(value) : attribute.set_f(value);
  } else if (auto strings = dyn_cast<DenseStringElementsAttr>(dense);
             strings && name.starts_with("value_string")) {
    attribute.set_type(isList ? AttributeProto::STRINGS
                              : AttributeProto::STRING);
    ArrayRef<StringRef> raw = strings.getRawStringData();
    for (int64_t i = 0, e = strings.getNumElements(); i != e; ++i) {
      std::string text = raw[strings.isSplat() ? 0 : i].str();
      isList ? attribute.add_strings(text) : attribute.set_s(text);
    }
  } else {
    return fail(op, "its value has not the form that 'tandem.form' says");
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Sizes and conditions
//===----------------------------------------------------------------------===//

void GraphExporter::emitDim(Operation &op, Scope &scope) {
  auto newValue = [&](StringRef hint) { return freshValue(hint, scope); };
  auto newNode = [&](StringRef hint) { return freshNode(hint, scope); };
  NodeSink sink{*scope.graph->mutable_node(), newValue, newNode, opset};
  auto dim = cast<tensor::DimOp>(op);
  int64_t index = *dim.getConstantIndex();
  auto type = dyn_cast<RankedTensorType>(dim.getSource().getType());
  if (type && index < type.getRank() && !type.isDynamicDim(index)) {
    setName(dim, sink.integer(type.getDimSize(index), "size"));
    return;
  }
  std::string shape = sink.make("Shape", {nameOf(dim.getSource())}, "shape");
  std::string position = sink.integer(index, "axis");
  setName(dim, sink.make("Gather", {shape, position}, "size"));
}

void GraphExporter::emitArith(Operation &op, Scope &scope) {
  auto newValue = [&](StringRef hint) { return freshValue(hint, scope); };
  auto newNode = [&](StringRef hint) { return freshNode(hint, scope); };
  NodeSink sink{*scope.graph->mutable_node(), newValue, newNode, opset};
  Value result = op.getResult(0);
  auto operand = [&](unsigned i) { return nameOf(op.getOperand(i)); };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    // The position in a tensor.dim is written with that (emitDim).
    if (llvm::all_of(result.getUses(), [](OpOperand &use) {
          return isa<tensor::DimOp>(use.getOwner());
        }))
      return;
    APInt value = cast<IntegerAttr>(constant.getValue()).getValue();
    std::string name = sink.integer(
        value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue(),
        "constant");
    if (result.getType().isInteger(1))
      name = sink.cast(name, TensorProto::INT64, TensorProto::BOOL, "constant");
    setName(result, name);
  } else if (isa<arith::MulIOp>(op)) {
    setName(result, sink.make("Mul", {operand(0), operand(1)}, "tokens"));
  } else if (isa<arith::AndIOp>(op)) {
    setName(result, sink.make("And", {operand(0), operand(1)}, "fits"));
  } else if (isa<arith::MinSIOp>(op)) {
    setName(result, sink.minimum(operand(0), operand(1), "limit"));
  } else if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    StringRef left = operand(0), right = operand(1);
    std::string name;
    auto negate = [&](const std::string &value) {
      return sink.make("Not", {value}, "check");
    };
    switch (compare.getPredicate()) {
    case arith::CmpIPredicate::eq:
      name = sink.make("Equal", {left, right}, "check");
      break;
    case arith::CmpIPredicate::ne:
      name = negate(sink.make("Equal", {left, right}, "check"));
      break;
    case arith::CmpIPredicate::sgt:
      name = sink.compare("Greater", left, right, "check");
      break;
    case arith::CmpIPredicate::slt:
      name = sink.compare("Less", left, right, "check");
      break;
    case arith::CmpIPredicate::sle:
      name = negate(sink.compare("Greater", left, right, "check"));
      break;
    default:
      name = negate(sink.compare("Less", left, right, "check"));
      break;
    }
    setName(result, name);
  }
}

//===----------------------------------------------------------------------===//
// Branches, calls and fused ops
//===----------------------------------------------------------------------===//

static Value lookThroughCasts(Value value) {
  while (auto cast = value.getDefiningOp<tensor::CastOp>())
    value = cast.getSource();
  return value;
}

FusedAllReduceNormOp
GraphExporter::matchOwnGuard(Operation &op, std::optional<int64_t> &maxTokens) {
  auto branch = cast<scf::IfOp>(op);
  auto both = branch.getCondition().getDefiningOp<arith::AndIOp>();
  if (!both)
    return {};
  auto low = both.getLhs().getDefiningOp<arith::CmpIOp>();
  auto high = both.getRhs().getDefiningOp<arith::CmpIOp>();
  if (!low || !high || low.getPredicate() != arith::CmpIPredicate::sgt ||
      high.getPredicate() != arith::CmpIPredicate::sle ||
      low.getLhs() != high.getLhs() || !matchPattern(low.getRhs(), m_Zero()))
    return {};
  Value limit = high.getRhs();
  if (auto smaller = limit.getDefiningOp<arith::MinSIOp>()) {
    APInt given;
    if (!matchPattern(smaller.getLhs(), m_ConstantInt(&given)))
      return {};
    maxTokens = given.getSExtValue();
    limit = smaller.getRhs();
  }
  if (!limit.getDefiningOp<TokenLimitOp>())
    return {};
  FusedAllReduceNormOp fused;
  for (Operation &inner : branch.thenBlock()->without_terminator()) {
    if (auto found = dyn_cast<FusedAllReduceNormOp>(inner)) {
      if (fused)
        return {};
      fused = found;
    } else if (!isHelper(inner)) {
      return {};
    }
  }
  if (!fused)
    return {};
  for (Value value : branch.thenYield().getOperands())
    if (lookThroughCasts(value).getDefiningOp() != fused)
      return {};
  return fused;
}

bool GraphExporter::emitFused(FusedAllReduceNormOp op,
                              std::optional<int64_t> maxTokens, Scope &scope) {
  NodeProto &node = *scope.graph->add_node();
  node.set_name(op->hasAttr("onnx_node_name")
                    ? claimNode(*op, scope)
                    : freshNode("fused_all_reduce_norm", scope));
  if (auto given = op->getAttrOfType<IntegerAttr>(maxTokensAttrName);
      given && !maxTokens)
    maxTokens = given.getInt();
  if (!tandemOps->writeFused(op, maxTokens, node) || !addExtras(*op, node))
    return false;
  for (Value input :
       {Value(op.getInput()), Value(op.getBias()), Value(op.getPreGamma()),
        Value(op.getResidual()), Value(op.getGamma())})
    if (input)
      node.add_input(nameOf(input).str());
  node.add_output(nameOf(op.getNorm()).str());
  // ONNX Runtime wants as many outputs as the function has.
  for (Value output : {op.getNewResidual(), op.getSum()})
    node.add_output(output ? nameOf(output).str() : std::string());
  return true;
}

/// Before opset 16 no value of bfloat16 could leave an If.
bool GraphExporter::isTooNarrow(Type type) const {
  auto tensor = dyn_cast<TensorType>(type);
  return opset < 16 && tensor && tensor.getElementType().isBF16();
}

void GraphExporter::addCast(GraphProto &graph, StringRef input,
                            StringRef output, int64_t dataType, Scope &scope) {
  NodeProto &node = *graph.add_node();
  node.set_op_type("Cast");
  node.set_name(freshNode("cast", scope));
  node.add_input(input.str());
  node.add_output(output.str());
  AttributeProto &to = *node.add_attribute();
  to.set_name("to");
  to.set_type(AttributeProto::INT);
  to.set_i(dataType);
}

/// What the names around a branch begin with: the first name it has.
static std::string siteOf(Operation &op, StringRef firstResult) {
  return ("tandem/" + firstResult).str();
}

bool GraphExporter::emitBranch(Operation &op, Scope &scope) {
  auto branch = cast<scf::IfOp>(op);
  if (branch.getElseRegion().empty())
    return fail(op, "it has no else branch");
  if (ownGuards.contains(&op)) {
    std::optional<int64_t> maxTokens;
    FusedAllReduceNormOp fused = matchOwnGuard(op, maxTokens);
    nameResults(op, scope, "fused");
    std::string site = scope.site;
    scope.site = siteOf(op, nameOf(op.getResult(0)));
    // The helpers before it are casts, and reshapes of gamma.
    for (Operation &inner : branch.thenBlock()->without_terminator())
      if (isHelper(inner) && !emitOp(inner, scope))
        return false;
    for (Value result : fused.getResults())
      setName(result, "");
    for (auto [result, value] :
         llvm::zip_equal(op.getResults(), branch.thenYield().getOperands()))
      names[lookThroughCasts(value)] = nameOf(result);
    bool isDone = emitFused(fused, maxTokens, scope);
    scope.site = site;
    for (Value result : op.getResults())
      declare(result, "values", scope, /*isNeeded=*/true);
    return isDone;
  }

  nameResults(op, scope, "branch");
  SmallVector<StringRef> results;
  for (Value result : op.getResults())
    results.push_back(nameOf(result));
  Scope site = scope;
  site.site =
      siteOf(op, results.empty() ? StringRef("branch") : results.front());
  NodeProto &node = *scope.graph->add_node();
  node.set_op_type("If");
  node.set_name(freshNode("guard", site));
  node.add_input(nameOf(branch.getCondition()).str());
  SmallVector<std::pair<Value, std::string>> narrow;
  for (Value result : op.getResults()) {
    std::string name = nameOf(result).str();
    if (isTooNarrow(result.getType())) {
      name = freshValue("wide", site);
      narrow.push_back({result, name});
    }
    node.add_output(name);
  }
  for (bool isThen : {true, false}) {
    AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(isThen ? "then_branch" : "else_branch");
    attribute.set_type(AttributeProto::GRAPH);
    GraphProto &graph = *attribute.mutable_g();
    graph.set_name(guardBodyNames[isThen ? 0 : 1].str());
    Scope inner;
    inner.graph = &graph;
    inner.declared = scope.declared;
    inner.exceptions = scope.exceptions;
    inner.isStrict = true;
    inner.site = site.site + (isThen ? "/fused" : "/unfused");
    if (!emitBranchBody(isThen ? *branch.thenBlock() : *branch.elseBlock(),
                        graph, results, inner))
      return false;
  }
  for (auto &[result, name] : narrow)
    addCast(*scope.graph, name, nameOf(result), TensorProto::BFLOAT16, site);
  for (Value result : op.getResults())
    declare(result, "values", scope);
  return true;
}

bool GraphExporter::emitBranchBody(Block &block, GraphProto &graph,
                                   ArrayRef<StringRef> results, Scope &scope) {
  if (!emitBlock(block, scope))
    return false;
  llvm::StringSet<> local, written;
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      local.insert(output);
  for (Value value : block.back().getOperands()) {
    std::string output = nameOf(value).str();
    // A branch gives what its own nodes compute, each value once.
    if (!local.contains(output) || written.contains(output)) {
      NodeProto &node = *graph.add_node();
      node.set_op_type("Identity");
      node.set_name(freshNode("output", scope));
      node.add_input(output);
      output = freshValue("output", scope);
      node.add_output(output);
    }
    bool isWide = isTooNarrow(value.getType());
    if (isWide) {
      std::string narrow = output;
      output = freshValue("wide", scope);
      addCast(graph, narrow, output, TensorProto::FLOAT, scope);
    }
    written.insert(output);
    ValueInfoProto &info = *graph.add_output();
    info.set_name(output);
    if (writeValueInfo(value, dimParamsOf(value), info) && isWide)
      info.mutable_type()->mutable_tensor_type()->set_elem_type(
          TensorProto::FLOAT);
  }
  // Outputs are declared as such.
  dropValueInfo(graph, written);
  return true;
}

bool GraphExporter::emitCall(func::CallOp op, Scope &scope) {
  auto callee = symbols.lookup<func::FuncOp>(op.getCallee());
  if (!callee || callee.isExternal())
    return fail(*op, "it calls a function that is not in the module");
  if (llvm::is_contained(activeCalls, callee))
    return fail(*op, "it calls a function that calls itself");
  activeCalls.push_back(callee);
  ++numVersions;
  Block &body = callee.getBody().front();
  for (auto [argument, operand] :
       llvm::zip_equal(body.getArguments(), op.getOperands()))
    names[argument] = nameOf(operand);
  Scope inner = scope;
  inner.isStrict = true;
  // Values of an earlier copy have names already.
  blockNames.erase(&body);
  body.walk([&](Operation *nested) {
    for (Value result : nested->getResults())
      names.erase(result);
    for (Region &region : nested->getRegions())
      for (Block &block : region)
        blockNames.erase(&block);
  });
  bool isDone = emitBlock(body, inner);
  activeCalls.pop_back();
  if (!isDone)
    return false;
  for (auto [result, value] :
       llvm::zip_equal(op.getResults(), body.back().getOperands()))
    names[result] = nameOf(value);
  return true;
}
