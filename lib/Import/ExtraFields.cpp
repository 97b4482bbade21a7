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
using ::tandem_onnx::StringStringEntryProto;
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
  if (from.has_name())
    to.set_name(from.name());
  if (from.has_doc_string())
    to.set_doc_string(from.doc_string());
  *to.mutable_metadata_props() = from.metadata_props();
}

/// Appends what is kept of `values`, the repeated field `field` of a graph, to
/// its serialized fields.
template <typename Values>
static void keepValues(const Values &values, int field,
                       ValuePredicate keepsType, ValuePredicate isLeftOut,
                       std::string &fields) {
  for (const ValueInfoProto &value : values) {
    bool hasType = value.has_type();
    bool isWhole =
        hasType && (value.type().value_case() == TypeProto::VALUE_NOT_SET ||
                    keepsType(value) || hasExtras(value.type(), true));
    if ((hasType && !isWhole && !value.has_doc_string() &&
         value.metadata_props().empty()) ||
        isLeftOut(value))
      continue;
    auto append = [&](const ValueInfoProto &kept) {
      size_t size = kept.ByteSizeLong();
      fields += static_cast<char>(field << 3 | 2);
      for (; size >= 0x80; size >>= 7)
        fields += static_cast<char>(size | 0x80);
      fields += static_cast<char>(size);
      kept.AppendToString(&fields);
    };
    if (isWhole) {
      append(value);
      continue;
    }
    ValueInfoProto kept;
    keepTexts(value, kept);
    if (!hasType)
      kept.mutable_type()->set_denotation(kNoType);
    append(kept);
  }
}

static bool hasTexts(const TensorProto &tensor) {
  return tensor.has_doc_string() || !tensor.metadata_props().empty();
}

/// Whether the exporter would not write the entries of an external tensor as
/// they are: location, offset and, maybe, length.
static bool hasOtherEntries(const TensorProto &tensor) {
  if (tensor.external_data().empty())
    return false;
  static constexpr const char *keys[] = {"location", "offset", "length"};
  int count = tensor.external_data_size();
  bool isUsual = count == 2 || count == 3;
  for (int i = 0; isUsual && i != count; ++i) {
    const auto &entry = tensor.external_data(i);
    const std::string &value = entry.value();
    isUsual = entry.key() == keys[i] &&
              (i == 0 || value == "0" ||
               (!value.empty() && value[0] >= '1' && value[0] <= '9'));
  }
  return !isUsual;
}

static void keepTensor(const TensorProto &tensor, TensorProto &kept) {
  keepTexts(tensor, kept);
  if (hasOtherEntries(tensor))
    *kept.mutable_external_data() = tensor.external_data();
}

void mlir::tandem::onnx::keepMetadata(
    const google::protobuf::RepeatedPtrField<StringStringEntryProto> &props,
    google::protobuf::RepeatedPtrField<StringStringEntryProto> &kept) {
  bool isSorted = true;
  for (int i = 0; i != props.size(); ++i)
    isSorted &= !props[i].key().empty() &&
                (i == 0 || props[i - 1].key() < props[i].key());
  if (isSorted)
    return;
  for (const StringStringEntryProto &entry : props) {
    StringStringEntryProto &added = *kept.Add();
    if (entry.key().empty())
      added = entry;
    else
      added.set_key(entry.key());
  }
}

std::string mlir::tandem::onnx::graphExtras(const GraphProto &graph,
                                            bool isBody,
                                            ValuePredicate keepsType,
                                            ValuePredicate isLeftOut) {
  GraphProto extras;
  auto isNone = [](const ValueInfoProto &) { return false; };
  std::string values;
  keepValues(graph.input(), GraphProto::kInputFieldNumber, keepsType, isNone,
             values);
  keepValues(graph.output(), GraphProto::kOutputFieldNumber, keepsType, isNone,
             values);
  keepValues(graph.value_info(), GraphProto::kValueInfoFieldNumber, keepsType,
             isLeftOut, values);
  for (const TensorProto &tensor : graph.initializer())
    if (hasTexts(tensor) || hasOtherEntries(tensor))
      keepTensor(tensor, *extras.add_initializer());
  *extras.mutable_quantization_annotation() = graph.quantization_annotation();
  if (isBody)
    *extras.mutable_metadata_props() = graph.metadata_props();
  else
    keepMetadata(graph.metadata_props(), *extras.mutable_metadata_props());
  extras.AppendToString(&values);
  return values;
}

static bool hasExtras(const TensorProto &tensor) {
  return !tensor.name().empty() || hasTexts(tensor) || hasOtherEntries(tensor);
}

static bool hasExtras(const AttributeProto &attribute) {
  if (attribute.has_doc_string() || hasExtras(attribute.t()) ||
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

std::string mlir::tandem::onnx::nodeExtras(const NodeProto &node,
                                           bool isInFunction,
                                           bool spellsDomain) {
  auto isKept = [](const AttributeProto &attribute) {
    return hasExtras(attribute);
  };
  // Others are as most, so that nothing is kept of them.
  bool hasOwn = !isInFunction && hasPlainDomain(node);
  bool hasDomain = hasOwn ? node.has_domain() : spellsDomain;
  if (!hasDomain &&
      std::none_of(node.attribute().begin(), node.attribute().end(), isKept))
    return {};
  NodeProto extras;
  if (hasDomain)
    extras.set_domain(hasOwn ? node.domain() : std::string());
  for (const AttributeProto &attribute : node.attribute()) {
    if (!isKept(attribute))
      continue;
    AttributeProto &kept = *extras.add_attribute();
    kept.set_name(attribute.name());
    if (attribute.has_doc_string())
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
