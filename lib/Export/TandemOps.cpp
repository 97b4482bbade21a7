//===- TandemOps.cpp - Tandem's ops in plain ONNX -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemOps.h"

#include "tandem/OnnxOps/FusedNode.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::FunctionProto;
using ::tandem_onnx::NodeProto;
using ::tandem_onnx::TensorProto;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

static AttributeProto &addAttribute(NodeProto &node, StringRef name,
                                    AttributeProto::AttributeType type) {
  AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name.str());
  attribute.set_type(type);
  return attribute;
}

static void addInt(NodeProto &node, StringRef name, int64_t value) {
  addAttribute(node, name, AttributeProto::INT).set_i(value);
}

static void addFloat(NodeProto &node, StringRef name, double value) {
  addAttribute(node, name, AttributeProto::FLOAT)
      .set_f(static_cast<float>(value));
}

static void addString(NodeProto &node, StringRef name, StringRef value) {
  addAttribute(node, name, AttributeProto::STRING).set_s(value.str());
}

NodeProto &NodeSink::add(StringRef opType, ArrayRef<StringRef> inputs,
                         StringRef output) const {
  NodeProto &node = *nodes.Add();
  node.set_op_type(opType.str());
  node.set_name(newNode(opType));
  for (StringRef input : inputs)
    node.add_input(input.str());
  if (!output.empty())
    node.add_output(output.str());
  return node;
}

std::string NodeSink::make(StringRef opType, ArrayRef<StringRef> inputs,
                           StringRef hint) const {
  std::string output = newValue(hint);
  add(opType, inputs, output);
  return output;
}

std::string NodeSink::cast(StringRef input, int32_t from, int32_t to,
                           StringRef hint) const {
  if (from == to)
    return input.str();
  std::string output = newValue(hint);
  addInt(add("Cast", {input}, output), "to", to);
  return output;
}

static TensorProto &addTensor(NodeProto &node, int32_t dataType) {
  TensorProto &tensor =
      *addAttribute(node, "value", AttributeProto::TENSOR).mutable_t();
  tensor.set_data_type(dataType);
  return tensor;
}

std::string NodeSink::integer(int64_t value, StringRef hint) const {
  std::string output = newValue(hint);
  addTensor(add("Constant", {}, output), TensorProto::INT64)
      .add_int64_data(value);
  return output;
}

std::string NodeSink::integers(ArrayRef<int64_t> values, StringRef hint) const {
  std::string output = newValue(hint);
  TensorProto &tensor =
      addTensor(add("Constant", {}, output), TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
  return output;
}

std::string NodeSink::compare(StringRef opType, StringRef a, StringRef b,
                              StringRef hint) const {
  // Greater and Less take integers since opset 9.
  int32_t type = opset < 9 ? TensorProto::DOUBLE : TensorProto::INT64;
  std::string left = cast(a, TensorProto::INT64, type, hint),
              right = cast(b, TensorProto::INT64, type, hint);
  return make(opType, {left, right}, hint);
}

std::string NodeSink::minimum(StringRef a, StringRef b, StringRef hint) const {
  // Min takes integers since opset 12.
  int32_t type = opset < 12 ? TensorProto::DOUBLE : TensorProto::INT64;
  std::string left = cast(a, TensorProto::INT64, type, hint),
              right = cast(b, TensorProto::INT64, type, hint);
  return cast(make("Min", {left, right}, hint), type, TensorProto::INT64, hint);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

static bool isFloat(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

static void referTo(AttributeProto &attribute, StringRef name) {
  attribute.clear_f();
  attribute.set_ref_attr_name(name.str());
}

/// Epsilon as a scalar of type `dataType`.
static std::string writeEpsilon(const NodeSink &sink, const NormSpec &norm,
                                int32_t dataType) {
  std::string output = sink.newValue("epsilon");
  if (sink.opset >= 12 && isFloat(norm.epsilon)) {
    AttributeProto &value = addAttribute(sink.add("Constant", {}, output),
                                         "value_float", AttributeProto::FLOAT);
    value.set_f(static_cast<float>(norm.epsilon));
    if (!norm.epsilonAttribute.empty())
      referTo(value, norm.epsilonAttribute);
    return sink.cast(output, TensorProto::FLOAT, dataType, "epsilon");
  }
  TensorProto &tensor = addTensor(sink.add("Constant", {}, output), dataType);
  if (dataType == TensorProto::DOUBLE)
    tensor.add_double_data(norm.epsilon);
  else
    tensor.add_float_data(static_cast<float>(norm.epsilon));
  return output;
}

void mlir::tandem::onnx::writeNorm(const NodeSink &sink, const NormSpec &norm,
                                   StringRef input, StringRef gamma,
                                   StringRef output) {
  int32_t type = norm.dataType;
  int32_t wide =
      type == TensorProto::DOUBLE ? TensorProto::DOUBLE : TensorProto::FLOAT;
  // In f32 there is nothing to round before gamma.
  bool roundsFirst = norm.rounding == NormRounding::BeforeGamma || type == wide;
  if (sink.opset >= 23 && roundsFirst && norm.gammaType == type &&
      wide == TensorProto::FLOAT && isFloat(norm.epsilon)) {
    NodeProto &node = sink.add("RMSNormalization", {input, gamma}, output);
    addInt(node, "axis", -1);
    addFloat(node, "epsilon", norm.epsilon);
    if (!norm.epsilonAttribute.empty())
      referTo(*node.mutable_attribute()->rbegin(), norm.epsilonAttribute);
    return;
  }

  std::string x = sink.cast(input, type, wide, "x");
  std::string square = sink.make("Mul", {x, x}, "square");
  std::string mean = sink.newValue("mean");
  if (sink.opset < 18) {
    NodeProto &node = sink.add("ReduceMean", {square}, mean);
    addAttribute(node, "axes", AttributeProto::INTS).add_ints(-1);
    addInt(node, "keepdims", 1);
  } else {
    std::string axes = sink.integers({-1}, "axes");
    addInt(sink.add("ReduceMean", {square, axes}, mean), "keepdims", 1);
  }
  std::string epsilon = writeEpsilon(sink, norm, wide);
  std::string shifted = sink.make("Add", {mean, epsilon}, "shifted");
  std::string root = sink.make("Sqrt", {shifted}, "root");
  std::string n = sink.make("Div", {x, root}, "normalized");
  if (roundsFirst)
    n = sink.cast(n, wide, type, "rounded");
  if (roundsFirst && norm.gammaType == type) {
    sink.add("Mul", {n, gamma}, output);
    return;
  }
  // The product in the wider of the two types.
  int32_t product =
      norm.gammaType == TensorProto::DOUBLE ? TensorProto::DOUBLE : wide;
  std::string left = sink.cast(n, roundsFirst ? type : wide, product, "factor");
  std::string right = sink.cast(gamma, norm.gammaType, product, "gamma");
  if (product == type) {
    sink.add("Mul", {left, right}, output);
    return;
  }
  std::string scaled = sink.make("Mul", {left, right}, "scaled");
  addInt(sink.add("Cast", {scaled}, output), "to", type);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

TandemOpWriter::TandemOpWriter(ModuleOp module,
                               ::tandem_onnx::ModelProto &model,
                               ProtoConverter &converter, int64_t opset)
    : module(module), model(model), converter(converter), opset(opset) {}

ArrayAttr TandemOpWriter::nodesOf(GroupAttr group,
                                  ReductionKind reduction) const {
  auto entries = module->getAttrOfType<ArrayAttr>(allReduceNodesAttrName);
  if (!entries)
    return {};
  for (Attribute entry : entries) {
    auto fields = dyn_cast<DictionaryAttr>(entry);
    if (!fields || fields.get("group") != group)
      continue;
    auto kind = fields.getAs<ReductionKindAttr>("reduction");
    if (kind && kind.getValue() == reduction)
      return fields.getAs<ArrayAttr>("nodes");
  }
  return {};
}

bool TandemOpWriter::writeAllReduce(const NodeSink &sink, Operation *op,
                                    GroupAttr group, ReductionKind reduction,
                                    StringRef input, StringRef output) {
  ArrayAttr nodes = nodesOf(group, reduction);
  if (!nodes || nodes.empty()) {
    emitError(op->getLoc())
        << "the source's nodes for this all-reduce aren't known "
           "(module attribute '"
        << allReduceNodesAttrName
        << "', which tandem-fuse writes); it has no ONNX form";
    return false;
  }
  std::string value = input.str();
  for (auto [index, entry] : llvm::enumerate(nodes)) {
    auto fields = dyn_cast<DictionaryAttr>(entry);
    auto name = fields ? fields.getAs<StringAttr>("op") : StringAttr();
    auto attributes =
        fields ? fields.getAs<DictionaryAttr>("attributes") : DictionaryAttr();
    StringRef opType = name ? name.getValue() : StringRef();
    if (!attributes || !opType.consume_front("onnx.")) {
      emitError(op->getLoc()) << "module attribute '" << allReduceNodesAttrName
                              << "' has an entry that is not understood";
      return false;
    }
    StringRef domain;
    if (opType == "Custom") {
      if (auto text = attributes.getAs<StringAttr>("function_name"))
        opType = text.getValue();
      if (auto text = attributes.getAs<StringAttr>("domain_name"))
        domain = text.getValue();
    }
    bool isLast = index + 1 == nodes.size();
    std::string result = isLast ? output.str() : sink.newValue("reducing");
    NodeProto &node = sink.add(opType, {StringRef(value)}, result);
    node.set_domain(domain.str());
    allReduceNodes.insert({domainName(domain).str(), opType.str()});
    for (NamedAttribute attribute : attributes) {
      StringRef attributeName = attribute.getName().getValue();
      if (attributeName == "function_name" || attributeName == "domain_name")
        continue;
      std::string error;
      if (!converter.toAttribute(attributeName, attribute.getValue(),
                                 Attribute(), false, *node.add_attribute(),
                                 error)) {
        emitError(op->getLoc())
            << "attribute '" << attributeName << "' " << error;
        return false;
      }
    }
    value = std::move(result);
  }
  return true;
}

void TandemOpWriter::addOpset(FunctionProto &function, StringRef domain) {
  for (const auto &import : function.opset_import())
    if (import.domain() == domain)
      return;
  int64_t version = 1;
  // The source may have used the domain in functions alone.
  if (auto fields = module->getAttrOfType<DictionaryAttr>("tandem.onnx"))
    if (auto imports = fields.getAs<DictionaryAttr>("function_imports"))
      if (auto given = imports.getAs<IntegerAttr>(domain))
        version = given.getInt();
  for (const auto &import : model.opset_import())
    if (import.domain() == domain)
      version = import.version();
  auto *import = function.add_opset_import();
  import->set_domain(domain.str());
  import->set_version(version);
}

/// What two functions of one name and one body have in common, whatever number
/// is behind the name.
static std::string contentKey(const FunctionProto &function, StringRef name) {
  FunctionProto copy = function;
  copy.clear_name();
  return name.str() + '\0' + copy.SerializeAsString();
}

void TandemOpWriter::know(const FunctionProto &function) {
  if (function.domain() != onnxDomain)
    return;
  sourceNames.insert(function.name());
  auto form = parseFusedNodeName(function.name());
  if (!form && !isTokenLimitName(function.name()))
    return;
  functions.try_emplace(
      contentKey(function, form ? form->getName() : "TokenLimit"),
      function.name());
}

void TandemOpWriter::finish(FunctionProto &function, StringRef name) {
  function.set_domain(onnxDomain.str());
  for (const auto &import : model.opset_import())
    if (import.domain().empty())
      addOpset(function, "");
  for (const NodeProto &node : function.node())
    addOpset(function, node.domain());
  hasWritten = true;
  std::string &known = functions[contentKey(function, name)];
  if (known.empty()) {
    // Functions of one name but different bodies, as of two groups, get
    // numbers.
    known = name.str();
    auto isTaken = [&] {
      return sourceNames.contains(known) ||
             llvm::any_of(model.functions(), [&](const FunctionProto &other) {
               return other.domain() == onnxDomain && other.name() == known;
             });
    };
    for (unsigned number = 2; isTaken(); ++number)
      known = (name + "_" + Twine(number)).str();
    FunctionProto &added = *model.add_functions();
    added = function;
    added.set_name(known);
  }
  function.set_name(known);
}

static void addGroup(NodeProto &node, GroupAttr group) {
  addString(node, "group", group.getName());
  addInt(node, "group_size", group.getSize());
  AttributeProto &ranks = addAttribute(node, "ranks", AttributeProto::INTS);
  ranks.mutable_ints()->Add(group.getRanks().begin(), group.getRanks().end());
}

bool TandemOpWriter::writeFused(FusedAllReduceNormOp op,
                                std::optional<int64_t> maxTokens,
                                NodeProto &node) {
  auto typeOf = [&](Value value) {
    return converter.dataType(
        cast<ShapedType>(value.getType()).getElementType());
  };
  int32_t type = typeOf(op.getInput());
  Value bias = op.getBias(), preGamma = op.getPreGamma(),
        residual = op.getResidual();

  FusedNodeForm form;
  form.hasBias = bias != nullptr;
  form.hasPreGamma = preGamma != nullptr;
  form.hasResidual = residual != nullptr;

  addFloat(node, "epsilon", op.getEpsilon().convertToDouble());
  addString(node, "rounding", stringifyNormRounding(op.getRounding()));
  if (preGamma) {
    addFloat(node, "pre_epsilon", op.getPreEpsilonAttr().getValueAsDouble());
    addString(node, "pre_rounding", stringifyNormRounding(op.getPreRounding()));
  }
  addGroup(node, op.getGroup());
  addInt(node, "batch_invariant", op.getBatchInvariant());
  addInt(node, "max_tokens", maxTokens.value_or(-1));

  FunctionProto function;
  for (const AttributeProto &attribute : node.attribute())
    function.add_attribute(attribute.name());
  unsigned number = 0;
  auto newValue = [&](StringRef hint) {
    return (hint + "_" + Twine(number++)).str();
  };
  auto newNode = [&](StringRef) { return std::string(); };
  NodeSink sink{*function.mutable_node(), newValue, newNode, opset};
  auto addInput = [&](Value value, const char *inputName) {
    if (value)
      function.add_input(inputName);
  };
  addInput(op.getInput(), "input");
  addInput(bias, "bias");
  addInput(preGamma, "pre_gamma");
  addInput(residual, "residual");
  addInput(op.getGamma(), "gamma");
  for (const char *output : {"norm", "new_residual", "sum"})
    function.add_output(output);

  if (!writeAllReduce(sink, op, op.getGroup(), ReductionKind::Sum, "input",
                      "sum"))
    return false;
  // The last of these is the new residual.
  std::string value = "sum";
  auto next = [&](const char *hint, bool isLast) {
    return isLast ? std::string("new_residual") : newValue(hint);
  };
  if (bias) {
    std::string biased = next("biased", !preGamma && !residual);
    sink.add("Add", {StringRef(value), "bias"}, biased);
    value = biased;
  }
  if (preGamma) {
    std::string normed = next("pre_norm", !residual);
    writeNorm(sink,
              {type, typeOf(preGamma),
               op.getPreEpsilonAttr().getValueAsDouble(), op.getPreRounding(),
               "pre_epsilon"},
              value, "pre_gamma", normed);
    value = normed;
  }
  if (residual)
    sink.add("Add", {StringRef(value), "residual"}, "new_residual");
  else if (value == "sum")
    sink.add("Identity", {"sum"}, "new_residual");
  writeNorm(sink,
            {type, typeOf(op.getGamma()), op.getEpsilon().convertToDouble(),
             op.getRounding(), "epsilon"},
            "new_residual", "gamma", "norm");
  function.set_doc_string(
      "all_reduce, adds and RMSNorm in one. Tandem's runtime has a kernel for "
      "it; this is what it computes.");
  finish(function, form.getName());
  node.set_op_type(function.name());
  node.set_domain(onnxDomain.str());
  return true;
}

void TandemOpWriter::writeTokenLimit(TokenLimitOp op, NodeProto &node) {
  addInt(node, "hidden", op.getHidden());
  addInt(node, "dtype", converter.dataType(op.getElementType()));
  addGroup(node, op.getGroup());

  FunctionProto function;
  for (const AttributeProto &attribute : node.attribute())
    function.add_attribute(attribute.name());
  function.add_output("limit");
  auto newName = [](StringRef) { return std::string(); };
  NodeSink sink{*function.mutable_node(), newName, newName, opset};
  addTensor(sink.add("Constant", {}, "limit"), TensorProto::INT64)
      .add_int64_data(-1);
  function.set_doc_string("The largest number of tokens for which Tandem's "
                          "fused kernel should run; -1 without its runtime.");
  finish(function, "TokenLimit");
  node.set_op_type(function.name());
  node.set_domain(onnxDomain.str());
}
