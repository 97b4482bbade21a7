//===- ExtraFields.cpp - What MLIR has no place for -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"

#include "../Import/ExternalData.h"
#include "../Import/ExtraFields.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace mlir::tandem::onnx;
using llvm::StringRef;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::NodeProto;
using ::tandem_onnx::TensorProto;
using ::tandem_onnx::TensorShapeProto;
using ::tandem_onnx::TypeProto;
using ::tandem_onnx::ValueInfoProto;
using Metadata =
    google::protobuf::RepeatedPtrField<::tandem_onnx::StringStringEntryProto>;

template <typename T>
static bool parse(StringRef bytes, T &message) {
  return bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Whether a tensor of the type `type` may be declared with that of `kept`.
template <typename Tensor>
static bool isCompatible(const Tensor &type, const Tensor &kept) {
  if (type.elem_type() != kept.elem_type() && type.elem_type() != 0 &&
      kept.elem_type() != 0)
    return false;
  if (!type.has_shape() || !kept.has_shape())
    return true;
  const TensorShapeProto &shape = type.shape(), &other = kept.shape();
  if (shape.dim_size() != other.dim_size())
    return false;
  for (int i = 0; i != shape.dim_size(); ++i)
    if (shape.dim(i).has_dim_value() && other.dim(i).has_dim_value() &&
        shape.dim(i).dim_value() != other.dim(i).dim_value())
      return false;
  return true;
}

/// Whether the source's declaration `kept` still fits a value of the type
/// `type`: a pass may have put another value in its place.
static bool isCompatible(const TypeProto &type, const TypeProto &kept) {
  if (type.value_case() == TypeProto::VALUE_NOT_SET ||
      kept.value_case() == TypeProto::VALUE_NOT_SET)
    return true;
  if (type.value_case() != kept.value_case())
    return false;
  switch (type.value_case()) {
  case TypeProto::kTensorType:
    return isCompatible(type.tensor_type(), kept.tensor_type());
  case TypeProto::kSparseTensorType:
    return isCompatible(type.sparse_tensor_type(), kept.sparse_tensor_type());
  case TypeProto::kSequenceType:
    return isCompatible(type.sequence_type().elem_type(),
                        kept.sequence_type().elem_type());
  case TypeProto::kOptionalType:
    return isCompatible(type.optional_type().elem_type(),
                        kept.optional_type().elem_type());
  case TypeProto::kMapType:
    return isCompatible(type.map_type().value_type(),
                        kept.map_type().value_type());
  default:
    return true;
  }
}

template <typename T>
static void addTexts(T &message, const T &kept) {
  if (kept.has_doc_string())
    message.set_doc_string(kept.doc_string());
  *message.mutable_metadata_props() = kept.metadata_props();
}

/// A type that is kept is the one that the source declares.
static void addType(ValueInfoProto &value, const ValueInfoProto &kept) {
  if (!kept.has_type())
    return;
  if (kept.type().denotation() == kNoType)
    value.clear_type();
  else if (isCompatible(value.type(), kept.type()))
    *value.mutable_type() = kept.type();
}

static void addTo(ValueInfoProto &value, const ValueInfoProto &kept) {
  addTexts(value, kept);
  addType(value, kept);
}

static void addTo(TensorProto &tensor, const TensorProto &kept) {
  addTexts(tensor, kept);
  if (tensor.data_location() != TensorProto::EXTERNAL ||
      kept.external_data().empty())
    return;
  // The entries of another place are those of another tensor.
  ExternalRef own, other;
  std::string error;
  if (parseExternalRef(tensor, own, error) &&
      parseExternalRef(kept, other, error) && own.location == other.location &&
      own.offset == other.offset && own.length == other.length)
    *tensor.mutable_external_data() = kept.external_data();
}

/// Adds each of `kept` to the value of its name; those that aren't there go to
/// `missing`.
template <typename Values>
static void addTo(Values &values, const Values &kept,
                  llvm::function_ref<void(const ValueInfoProto &)> missing) {
  if (kept.empty())
    return;
  llvm::StringMap<ValueInfoProto *> byName;
  for (ValueInfoProto &value : values)
    byName.try_emplace(value.name(), &value);
  for (const ValueInfoProto &value : kept)
    if (ValueInfoProto *found = byName.lookup(value.name()))
      addTo(*found, value);
    else
      missing(value);
}

bool mlir::tandem::onnx::addGraphExtras(
    StringRef extras, GraphProto &graph,
    llvm::ArrayRef<TensorProto *> initializers) {
  GraphProto kept;
  if (!parse(extras, kept))
    return false;
  addTo(*graph.mutable_input(), kept.input(), [](const ValueInfoProto &) {});
  addTo(*graph.mutable_output(), kept.output(), [](const ValueInfoProto &) {});
  // A value may have been described without a type.
  std::vector<const ValueInfoProto *> others;
  addTo(*graph.mutable_value_info(), kept.value_info(),
        [&](const ValueInfoProto &value) { others.push_back(&value); });
  if (!others.empty()) {
    llvm::StringSet<> computed;
    for (const NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        computed.insert(output);
    for (const TensorProto &tensor : graph.initializer())
      computed.insert(tensor.name());
    for (const auto &tensor : graph.sparse_initializer())
      computed.insert(tensor.values().name());
    for (const TensorProto *tensor : initializers)
      computed.insert(tensor->name());
    for (const ValueInfoProto &output : graph.output())
      computed.erase(output.name());
    for (const ValueInfoProto *value : others) {
      if (!computed.erase(value->name()))
        continue;
      ValueInfoProto &added = *graph.add_value_info();
      added.set_name(value->name());
      addTo(added, *value);
    }
  }
  if (!kept.initializer().empty()) {
    llvm::StringMap<TensorProto *> byName;
    for (TensorProto &tensor : *graph.mutable_initializer())
      byName.try_emplace(tensor.name(), &tensor);
    for (TensorProto *tensor : initializers)
      byName.try_emplace(tensor->name(), tensor);
    for (const TensorProto &tensor : kept.initializer())
      if (TensorProto *found = byName.lookup(tensor.name()))
        addTo(*found, tensor);
  }
  graph.mutable_quantization_annotation()->Swap(
      kept.mutable_quantization_annotation());
  addMetadata(kept.metadata_props(), *graph.mutable_metadata_props());
  return true;
}

void mlir::tandem::onnx::addMetadata(const Metadata &kept, Metadata &props) {
  if (kept.empty())
    return;
  Metadata others;
  others.Swap(&props);
  std::vector<bool> isDone(static_cast<size_t>(others.size()));
  llvm::StringMap<int> places;
  for (int i = 0; i != others.size(); ++i)
    places.try_emplace(others[i].key(), i);
  for (const auto &entry : kept) {
    auto place = places.find(entry.key());
    if (place != places.end() && !isDone[place->second]) {
      *props.Add() = others[place->second];
      isDone[place->second] = true;
    } else if (entry.has_value()) {
      *props.Add() = entry;
    }
  }
  for (int i = 0; i != others.size(); ++i)
    if (!isDone[i])
      *props.Add() = others[i];
}

void mlir::tandem::onnx::dropValueInfo(GraphProto &graph,
                                       const llvm::StringSet<> &names) {
  auto &infos = *graph.mutable_value_info();
  int kept = 0;
  for (int i = 0, e = infos.size(); i != e; ++i)
    if (!names.contains(infos[i].name()))
      infos.SwapElements(kept++, i);
  infos.DeleteSubrange(kept, infos.size() - kept);
}

bool mlir::tandem::onnx::addOtherValues(StringRef bytes, GraphProto &graph) {
  GraphProto others;
  if (!parse(bytes, others))
    return false;
  for (TensorProto &tensor : *others.mutable_initializer())
    graph.add_initializer()->Swap(&tensor);
  for (auto &tensor : *others.mutable_sparse_initializer())
    graph.add_sparse_initializer()->Swap(&tensor);
  if (!others.input().empty()) {
    llvm::StringMap<ValueInfoProto *> inputs;
    for (ValueInfoProto &input : *graph.mutable_input())
      inputs.try_emplace(input.name(), &input);
    llvm::StringSet<> constants;
    for (const TensorProto &tensor : graph.initializer())
      constants.insert(tensor.name());
    for (const auto &tensor : graph.sparse_initializer())
      constants.insert(tensor.values().name());
    bool isComplete = true;
    int numKnown = 0;
    for (const ValueInfoProto &input : others.input()) {
      bool isKnown = inputs.contains(input.name());
      numKnown += isKnown;
      isComplete &= isKnown || constants.contains(input.name());
    }
    // Else the body is not what it was.
    if (isComplete && numKnown == graph.input_size()) {
      for (ValueInfoProto &input : *others.mutable_input())
        if (ValueInfoProto *known = inputs.lookup(input.name()))
          input.Swap(known);
      graph.mutable_input()->Swap(others.mutable_input());
      // As inputs they are declared.
      llvm::StringSet<> names;
      for (const ValueInfoProto &input : graph.input())
        names.insert(input.name());
      dropValueInfo(graph, names);
    }
  }
  if (others.value_info().empty())
    return true;
  // What has become a value since is declared as that.
  llvm::StringSet<> taken;
  for (const ValueInfoProto &value : graph.value_info())
    taken.insert(value.name());
  llvm::StringSet<> computed;
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      computed.insert(output);
  for (const ValueInfoProto &output : graph.output())
    computed.erase(output.name());
  for (ValueInfoProto &value : *others.mutable_value_info())
    if (!taken.contains(value.name()) && !computed.contains(value.name()))
      graph.add_value_info()->Swap(&value);
  return true;
}

/// Adds `kept`, which has a name, documentation and metadata, to a tensor that
/// is an attribute.
static void addNamed(TensorProto &tensor, const TensorProto &kept) {
  addTo(tensor, kept);
  if (!kept.name().empty())
    tensor.set_name(kept.name());
}

static void addTo(AttributeProto &attribute, const AttributeProto &kept) {
  if (kept.has_doc_string())
    attribute.set_doc_string(kept.doc_string());
  if (kept.has_t() && attribute.has_t())
    addNamed(*attribute.mutable_t(), kept.t());
  if (kept.has_tp() && attribute.has_tp() &&
      isCompatible(attribute.tp(), kept.tp()))
    *attribute.mutable_tp() = kept.tp();
  if (kept.tensors_size() == attribute.tensors_size())
    for (int i = 0; i != kept.tensors_size(); ++i)
      addNamed(*attribute.mutable_tensors(i), kept.tensors(i));
  if (kept.type_protos_size() == attribute.type_protos_size())
    for (int i = 0; i != kept.type_protos_size(); ++i)
      if (isCompatible(attribute.type_protos(i), kept.type_protos(i)))
        *attribute.mutable_type_protos(i) = kept.type_protos(i);
}

bool mlir::tandem::onnx::addNodeExtras(StringRef extras, NodeProto &node) {
  NodeProto kept;
  if (!parse(extras, kept))
    return false;
  if (kept.has_doc_string())
    node.set_doc_string(kept.doc_string());
  if (kept.has_domain() && node.domain().empty())
    node.set_domain(kept.domain());
  node.mutable_metadata_props()->Swap(kept.mutable_metadata_props());
  node.mutable_device_configurations()->Swap(
      kept.mutable_device_configurations());
  for (const AttributeProto &attribute : kept.attribute())
    for (AttributeProto &own : *node.mutable_attribute())
      if (own.name() == attribute.name())
        addTo(own, attribute);
  return true;
}
