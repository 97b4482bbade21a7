//===- ExtraFields.cpp - What MLIR has no place for -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"

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

template <typename T>
static bool parse(StringRef bytes, T &message) {
  return bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Takes denotations over, and names of dims that have neither name nor size.
/// Shapes of another rank are of another value.
static void addTo(TensorShapeProto &shape, const TensorShapeProto &kept) {
  if (shape.dim_size() != kept.dim_size())
    return;
  for (int i = 0; i != shape.dim_size(); ++i) {
    auto &dim = *shape.mutable_dim(i);
    const auto &other = kept.dim(i);
    if (!other.denotation().empty())
      dim.set_denotation(other.denotation());
    if (!other.dim_param().empty() &&
        dim.value_case() == TensorShapeProto::Dimension::VALUE_NOT_SET)
      dim.set_dim_param(other.dim_param());
  }
}

static void addTo(TypeProto &type, const TypeProto &kept) {
  if (type.value_case() != kept.value_case())
    return;
  if (!kept.denotation().empty())
    type.set_denotation(kept.denotation());
  switch (type.value_case()) {
  case TypeProto::kTensorType:
    if (type.tensor_type().has_shape())
      addTo(*type.mutable_tensor_type()->mutable_shape(),
            kept.tensor_type().shape());
    return;
  case TypeProto::kSparseTensorType:
    if (type.sparse_tensor_type().has_shape())
      addTo(*type.mutable_sparse_tensor_type()->mutable_shape(),
            kept.sparse_tensor_type().shape());
    return;
  case TypeProto::kSequenceType:
    return addTo(*type.mutable_sequence_type()->mutable_elem_type(),
                 kept.sequence_type().elem_type());
  case TypeProto::kOptionalType:
    return addTo(*type.mutable_optional_type()->mutable_elem_type(),
                 kept.optional_type().elem_type());
  case TypeProto::kMapType:
    return addTo(*type.mutable_map_type()->mutable_value_type(),
                 kept.map_type().value_type());
  default:
    return;
  }
}

template <typename T>
static void addTexts(T &message, const T &kept) {
  if (kept.has_doc_string())
    message.set_doc_string(kept.doc_string());
  *message.mutable_metadata_props() = kept.metadata_props();
}

static void addTo(ValueInfoProto &value, const ValueInfoProto &kept) {
  addTexts(value, kept);
  if (kept.has_type() && value.has_type())
    addTo(*value.mutable_type(), kept.type());
}

static void addTo(TensorProto &tensor, const TensorProto &kept) {
  addTexts(tensor, kept);
  if (tensor.data_location() == TensorProto::EXTERNAL)
    tensor.mutable_external_data()->MergeFrom(kept.external_data());
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
      addTexts(added, *value);
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
  graph.mutable_metadata_props()->MergeFrom(kept.metadata_props());
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
  if (kept.has_tp() && attribute.has_tp())
    addTo(*attribute.mutable_tp(), kept.tp());
  if (kept.tensors_size() == attribute.tensors_size())
    for (int i = 0; i != kept.tensors_size(); ++i)
      addNamed(*attribute.mutable_tensors(i), kept.tensors(i));
  if (kept.type_protos_size() == attribute.type_protos_size())
    for (int i = 0; i != kept.type_protos_size(); ++i)
      addTo(*attribute.mutable_type_protos(i), kept.type_protos(i));
}

bool mlir::tandem::onnx::addNodeExtras(StringRef extras, NodeProto &node) {
  NodeProto kept;
  if (!parse(extras, kept))
    return false;
  if (kept.has_doc_string())
    node.set_doc_string(kept.doc_string());
  node.mutable_metadata_props()->Swap(kept.mutable_metadata_props());
  node.mutable_device_configurations()->Swap(
      kept.mutable_device_configurations());
  for (const AttributeProto &attribute : kept.attribute())
    for (AttributeProto &own : *node.mutable_attribute())
      if (own.name() == attribute.name())
        addTo(own, attribute);
  return true;
}
