//===- ExtraFields.cpp - What MLIR has no place for -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtraFields.h"

#include <algorithm>

using namespace mlir::tandem::onnx;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::NodeProto;
using ::tandem_onnx::TensorProto;
using ::tandem_onnx::TensorShapeProto;
using ::tandem_onnx::TypeProto;
using ::tandem_onnx::ValueInfoProto;

/// Names of dims are kept with a value's own type (`isOuter`), but not within.
static bool hasExtras(const TensorShapeProto &shape, bool isOuter) {
  for (const auto &dim : shape.dim())
    if (!dim.denotation().empty() || (!isOuter && !dim.dim_param().empty()))
      return true;
  return false;
}

/// Whether `type` has denotations, or names of dims that are not kept
/// elsewhere.
static bool hasExtras(const TypeProto &type, bool isOuter) {
  if (!type.denotation().empty())
    return true;
  switch (type.value_case()) {
  case TypeProto::kTensorType:
    return hasExtras(type.tensor_type().shape(), isOuter);
  case TypeProto::kSparseTensorType:
    return hasExtras(type.sparse_tensor_type().shape(), false);
  case TypeProto::kSequenceType:
    return hasExtras(type.sequence_type().elem_type(), false);
  case TypeProto::kOptionalType:
    return hasExtras(type.optional_type().elem_type(), false);
  case TypeProto::kMapType:
    return hasExtras(type.map_type().value_type(), false);
  default:
    return false;
  }
}

/// Adds documentation and metadata of `from`, and its name with them.
template <typename T>
static void keepTexts(const T &from, T &to) {
  to.set_name(from.name());
  if (!from.doc_string().empty())
    to.set_doc_string(from.doc_string());
  *to.mutable_metadata_props() = from.metadata_props();
}

template <typename Values>
static void keepValues(const Values &from, Values &to) {
  for (const ValueInfoProto &value : from) {
    bool hasType = hasExtras(value.type(), true);
    if (!hasType && value.doc_string().empty() &&
        value.metadata_props().empty())
      continue;
    ValueInfoProto &kept = *to.Add();
    keepTexts(value, kept);
    if (hasType)
      *kept.mutable_type() = value.type();
  }
}

static bool hasTexts(const TensorProto &tensor) {
  return !tensor.doc_string().empty() || !tensor.metadata_props().empty();
}

/// Whether the importer reads the entry of an external tensor itself.
static bool isKnownKey(const std::string &key) {
  return key == "location" || key == "offset" || key == "length";
}

static bool hasOtherKeys(const TensorProto &tensor) {
  for (const auto &entry : tensor.external_data())
    if (!isKnownKey(entry.key()))
      return true;
  return false;
}

static void keepTensor(const TensorProto &tensor, TensorProto &kept) {
  keepTexts(tensor, kept);
  for (const auto &entry : tensor.external_data())
    if (!isKnownKey(entry.key()))
      *kept.add_external_data() = entry;
}

std::string mlir::tandem::onnx::graphExtras(const GraphProto &graph,
                                            bool isBody) {
  GraphProto extras;
  keepValues(graph.input(), *extras.mutable_input());
  keepValues(graph.output(), *extras.mutable_output());
  keepValues(graph.value_info(), *extras.mutable_value_info());
  for (const TensorProto &tensor : graph.initializer())
    if (hasTexts(tensor) || hasOtherKeys(tensor))
      keepTensor(tensor, *extras.add_initializer());
  *extras.mutable_quantization_annotation() = graph.quantization_annotation();
  // The rest is in a dictionary, where each has a name.
  for (const auto &entry : graph.metadata_props())
    if (isBody || entry.key().empty())
      *extras.add_metadata_props() = entry;
  return extras.SerializeAsString();
}

static bool hasExtras(const TensorProto &tensor) {
  return !tensor.name().empty() || hasTexts(tensor) || hasOtherKeys(tensor);
}

static bool hasExtras(const AttributeProto &attribute) {
  if (!attribute.doc_string().empty() || hasExtras(attribute.t()) ||
      hasExtras(attribute.tp(), false))
    return true;
  for (const TensorProto &tensor : attribute.tensors())
    if (hasExtras(tensor))
      return true;
  for (const TypeProto &type : attribute.type_protos())
    if (hasExtras(type, false))
      return true;
  return false;
}

std::string mlir::tandem::onnx::attributeExtras(const NodeProto &node) {
  auto isKept = [](const AttributeProto &attribute) {
    return hasExtras(attribute);
  };
  if (std::none_of(node.attribute().begin(), node.attribute().end(), isKept))
    return {};
  NodeProto extras;
  for (const AttributeProto &attribute : node.attribute()) {
    if (!isKept(attribute))
      continue;
    AttributeProto &kept = *extras.add_attribute();
    kept.set_name(attribute.name());
    if (!attribute.doc_string().empty())
      kept.set_doc_string(attribute.doc_string());
    if (hasExtras(attribute.t()))
      keepTensor(attribute.t(), *kept.mutable_t());
    if (hasExtras(attribute.tp(), false))
      *kept.mutable_tp() = attribute.tp();
    // These are told apart by their places.
    bool hasAny = false;
    for (const TensorProto &tensor : attribute.tensors())
      hasAny |= hasExtras(tensor);
    if (hasAny)
      for (const TensorProto &tensor : attribute.tensors())
        keepTensor(tensor, *kept.add_tensors());
    *kept.mutable_type_protos() = attribute.type_protos();
  }
  return extras.SerializeAsString();
}
