//===- Functions.cpp - The source's functions and their calls -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Functions.h"

#include "OpVersions.h"

#include "tandem/OnnxOps/CallBody.h"
#include "tandem/OnnxOps/FusedNode.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::FunctionProto;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::ModelProto;
using ::tandem_onnx::NodeProto;
using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

static std::string keyOf(StringRef domain, StringRef name, StringRef overload) {
  std::string key = canonicalDomain(domain).str();
  for (StringRef part : {name, overload}) {
    key += '\0';
    key += part;
  }
  return key;
}

static std::string keyOf(const NodeProto &node) {
  return keyOf(node.domain(), node.op_type(), node.overload());
}

static StringRef textOf(DictionaryAttr entries, StringRef name) {
  auto text = entries.getAs<StringAttr>(name);
  return text ? text.getValue() : StringRef();
}

LogicalResult SourceFunctions::load(DictionaryAttr given, Location location) {
  fields = given;
  if (auto list = fields.getAs<ArrayAttr>("functions"))
    for (Attribute entry : list) {
      auto entries = dyn_cast<DictionaryAttr>(entry);
      auto value = entries ? entries.getAs<DenseResourceElementsAttr>("proto")
                           : DenseResourceElementsAttr();
      const AsmResourceBlob *blob =
          value ? value.getRawHandle().getBlob() : nullptr;
      FunctionProto &function = functions.emplace_back();
      if (!blob ||
          blob->getData().size() >
              static_cast<size_t>(std::numeric_limits<int>::max()) ||
          !function.ParseFromArray(blob->getData().data(),
                                   static_cast<int>(blob->getData().size())))
        return emitError(location)
               << "function " << functions.size() - 1
               << " in the attribute 'tandem.onnx' can't be read";
      otherOpsets.push_back(entries.getAs<DictionaryAttr>("other_opsets"));
      indices.try_emplace(
          keyOf(function.domain(), function.name(), function.overload()),
          functions.size() - 1);
    }
  if (auto list = fields.getAs<ArrayAttr>("calls"))
    for (Attribute entry : list) {
      calls.emplace_back();
      if (auto entries = dyn_cast<DictionaryAttr>(entry))
        readCall(entries);
    }
  return success();
}

void SourceFunctions::readCall(DictionaryAttr entries) {
  Call call;
  call.opType = textOf(entries, "op");
  call.domain = textOf(entries, "domain");
  call.overload = textOf(entries, "overload");
  call.name = textOf(entries, "name");
  call.extra = textOf(entries, "extra");
  call.attributes = entries.getAs<DictionaryAttr>("attributes");
  call.kinds = entries.getAs<DictionaryAttr>("kinds");
  call.inputs = entries.getAs<ArrayAttr>("inputs");
  call.outputs = entries.getAs<ArrayAttr>("outputs");
  auto hash = entries.getAs<IntegerAttr>("hash");
  auto parent = entries.getAs<IntegerAttr>("parent");
  if (!call.inputs || !call.outputs || !hash)
    return;
  call.hash = static_cast<uint64_t>(hash.getInt());
  // A call is noted after the one around it.
  if (parent && parent.getInt() >= 0 &&
      parent.getInt() + 1 < static_cast<int64_t>(calls.size()))
    call.parent = parent.getInt();
  calls.back() = call;
}

const SourceFunctions::Call *SourceFunctions::getCall(int64_t number) const {
  if (number < 0 || number >= static_cast<int64_t>(calls.size()))
    return nullptr;
  const Call &call = calls[static_cast<size_t>(number)];
  bool isKnown = call.inputs && indices.contains(keyOf(call.domain, call.opType,
                                                       call.overload));
  return isKnown ? &call : nullptr;
}

std::string SourceFunctions::getOpsetConflict(Operation &op) const {
  // Ops in bodies are from the call that the op around them is from.
  IntegerAttr mark;
  for (Operation *at = &op; at && !mark; at = at->getParentOp())
    mark = at->getAttrOfType<IntegerAttr>(callAttrName);
  const Call *call = mark ? getCall(mark.getInt()) : nullptr;
  if (!call)
    return {};
  StringRef domain = "ai.onnx", type = op.getName().stripDialect();
  if (auto text = op.getAttrOfType<StringAttr>("domain_name"))
    domain = text.empty() ? domain : text.getValue();
  if (auto text = op.getAttrOfType<StringAttr>("function_name"))
    type = text.getValue();
  return describeConflict(*call, domain, type);
}

std::string SourceFunctions::describeConflict(const Call &call,
                                              StringRef domain,
                                              StringRef type) const {
  size_t index =
      indices.find(keyOf(call.domain, call.opType, call.overload))->second;
  auto version = otherOpsets[index]
                     ? otherOpsets[index].getAs<IntegerAttr>(domain)
                     : IntegerAttr();
  if (!version)
    return {};
  auto imports = fields.getAs<DictionaryAttr>("opset_imports");
  auto own = imports ? imports.getAs<IntegerAttr>(domain) : IntegerAttr();
  bool isOnnxOp = domain == "ai.onnx";
  if (own && isOnnxOp &&
      (isSameOp(type, version.getInt(), own.getInt()) ||
       // What a newer opset adds to constants are types.
       (type == "Constant" && own.getInt() > version.getInt())))
    return {};
  std::string model = own ? "opset " + llvm::itostr(own.getInt()) : "another";
  if (own && isOnnxOp)
    model += ", in which " + type.str() + " is another op";
  return ("the function '" + call.domain + "::" + call.opType +
          "' was written for opset " + Twine(version.getInt()) + " of " +
          domain + ", but the model has " + model +
          "; a part of the function was changed, so this node would have to be "
          "the model's. Convert the function to the model's opset first")
      .str();
}

/// Calls `visit` for all nodes, those of bodies too.
static void walk(const Nodes &nodes,
                 llvm::function_ref<void(const NodeProto &)> visit) {
  for (const NodeProto &node : nodes) {
    visit(node);
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g())
        walk(attribute.g().node(), visit);
      for (const GraphProto &graph : attribute.graphs())
        walk(graph.node(), visit);
    }
  }
}

std::string SourceFunctions::getOpsetConflict(int64_t number, StringRef domain,
                                              StringRef type) const {
  const Call *call = getCall(number);
  if (!call)
    return {};
  std::string conflict = describeConflict(*call, domain, type);
  if (conflict.empty())
    return {};
  bool isUsed = false;
  size_t index =
      indices.find(keyOf(call->domain, call->opType, call->overload))->second;
  walk(functions[index].node(), [&](const NodeProto &node) {
    isUsed |= domainName(node.domain()) == domain && node.op_type() == type;
  });
  return isUsed ? conflict : std::string();
}

void SourceFunctions::addTo(ModelProto &model, bool dropsOwn) {
  llvm::StringSet<> domains;
  std::vector<char> isCalled(functions.size()), wasCalled(functions.size());
  // Marks the functions that `nodes` call, and those that these call.
  auto mark = [&](const Nodes &nodes, std::vector<char> &marks) {
    SmallVector<const Nodes *> worklist = {&nodes};
    while (!worklist.empty())
      walk(*worklist.pop_back_val(), [&](const NodeProto &node) {
        auto found = indices.find(keyOf(node));
        if (found == indices.end() || marks[found->second])
          return;
        marks[found->second] = true;
        worklist.push_back(&functions[found->second].node());
      });
  };
  // The domains of the graph alone: functions have their own.
  walk(model.graph().node(), [&](const NodeProto &node) {
    domains.insert(domainName(node.domain()));
  });
  mark(model.graph().node(), isCalled);
  for (const FunctionProto &function : model.functions())
    mark(function.node(), isCalled);
  Nodes called;
  for (const Call &call : calls) {
    NodeProto &node = *called.Add();
    node.set_domain(call.domain.str());
    node.set_op_type(call.opType.str());
    node.set_overload(call.overload.str());
  }
  mark(called, wasCalled);

  google::protobuf::RepeatedPtrField<FunctionProto> own;
  own.Swap(model.mutable_functions());
  // What stays uncalled may call others.
  std::vector<char> isKept = isCalled;
  for (size_t i = 0; i != functions.size(); ++i)
    if (!wasCalled[i] && !isKept[i] &&
        !(dropsOwn && functions[i].domain() == onnxDomain)) {
      isKept[i] = true;
      mark(functions[i].node(), isKept);
    }
  for (size_t i = 0; i != functions.size(); ++i)
    if (isKept[i])
      *model.add_functions() = std::move(functions[i]);
  for (FunctionProto &function : own)
    *model.add_functions() = std::move(function);

  if (auto others = fields.getAs<DictionaryAttr>("function_imports"))
    for (NamedAttribute entry : others) {
      auto version = dyn_cast<IntegerAttr>(entry.getValue());
      StringRef domain = entry.getName().getValue();
      if (!version || !domains.contains(domain))
        continue;
      auto *import = model.add_opset_import();
      import->set_domain(canonicalDomain(domain).str());
      import->set_version(version.getInt());
    }
}

BlockCalls::BlockCalls(Block &block, const SourceFunctions &functions)
    : functions(functions) {
  for (Operation &op : block) {
    auto mark = op.getAttrOfType<IntegerAttr>(callAttrName);
    if (!mark)
      continue;
    int64_t number = mark.getInt();
    while (const SourceFunctions::Call *call = functions.getCall(number)) {
      ops[number].push_back(&op);
      number = call->parent;
    }
  }
}

SmallVector<int64_t, 2> BlockCalls::startingAt(Operation *op) const {
  SmallVector<int64_t, 2> result;
  auto mark = op->getAttrOfType<IntegerAttr>(callAttrName);
  int64_t number = mark ? mark.getInt() : -1;
  while (const SourceFunctions::Call *call = functions.getCall(number)) {
    auto entry = ops.find(number);
    if (entry != ops.end() && entry->second.front() == op)
      result.push_back(number);
    number = call->parent;
  }
  std::reverse(result.begin(), result.end());
  return result;
}
