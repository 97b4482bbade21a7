//===- AttributeImport.cpp - Attributes of nodes --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "tandem/Dialect/Tandem.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

const char *mlir::tandem::onnx::kindName(
    ::tandem_onnx::AttributeProto::AttributeType type) {
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

  // External data does not know its type.
  SmallVector<Attribute> externalTypes;
  bool isExternal = false;
  auto toAttribute = [&](const TensorProto &tensor) {
    TensorInfo info;
    std::string error;
    std::string resource =
        (node.proto.output_size() ? node.proto.output(0) : node.proto.name()) +
        "." + proto.name();
    Attribute value =
        reader.toAttribute(tensor, resourceName(resource), info, error);
    if (!value) {
      refuse(error);
      return value;
    }
    isExternal |= isa<ExternalDataAttr>(value);
    externalTypes.push_back(isa<ExternalDataAttr>(value)
                                ? Attribute(TypeAttr::get(info.type))
                                : Attribute(unit));
    return value;
  };
  auto toSparseAttribute = [&](const SparseTensorProto &tensor) {
    TensorInfo info;
    std::string error;
    StringAttr value = readSparse(tensor, info, error);
    if (!value)
      refuse(error);
    return value;
  };
  // Null where an element is refused.
  auto toList = [&](const auto &elements, auto toElement) -> Attribute {
    SmallVector<Attribute> values;
    for (const auto &element : elements) {
      values.push_back(toElement(element));
      if (!values.back())
        return {};
    }
    return builder.getArrayAttr(values);
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
  case AttributeProto::TENSORS:
    value = toList(proto.tensors(), toAttribute);
    break;
  case AttributeProto::TYPE_PROTO:
    value = toTypeAttribute(proto.tp());
    break;
  case AttributeProto::TYPE_PROTOS:
    value = toList(proto.type_protos(), toTypeAttribute);
    break;
  case AttributeProto::SPARSE_TENSOR:
    value = toSparseAttribute(proto.sparse_tensor());
    addKind(node, name, proto.type());
    break;
  case AttributeProto::SPARSE_TENSORS:
    value = toList(proto.sparse_tensors(), toSparseAttribute);
    addKind(node, name, proto.type());
    break;
  case AttributeProto::GRAPH:
  case AttributeProto::GRAPHS:
    // These become regions.
    return true;
  case AttributeProto::UNDEFINED:
    return refuse("has no type");
  }
  if (!value)
    return false;
  if (isExternal)
    node.kinds.push_back(
        builder.getNamedAttr(name, proto.type() == AttributeProto::TENSOR
                                       ? externalTypes.front()
                                       : builder.getArrayAttr(externalTypes)));
  // An empty list does not show what it is a list of.
  if (auto list = dyn_cast<ArrayAttr>(value);
      list && list.empty() && proto.type() != AttributeProto::INTS &&
      proto.type() != AttributeProto::SPARSE_TENSORS)
    addKind(node, name, proto.type());
  attributes.emplace_back(attributeName(node.kind, name), value);
  return true;
}

/// Notes the type of an attribute whose value does not show it.
void GraphImporter::addKind(NodeState &node, StringRef name,
                            AttributeProto::AttributeType type) {
  node.kinds.push_back(builder.getNamedAttr(
      name, builder.getStringAttr(AttributeProto::AttributeType_Name(type))));
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

bool GraphImporter::fitsAttributeOrder(const NodeState &node) {
  SmallVectorImpl<StringAttr> &order = node.kind.attributeOrder;
  if (node.attributes.size() < 2)
    return true;
  size_t next = 0;
  for (const AttributeProto *attribute : node.attributes) {
    StringRef name = attribute->name();
    size_t place = next;
    while (place != order.size() && order[place].getValue() != name)
      ++place;
    if (place == order.size()) {
      // A kind of many attributes, or one that came earlier: an order of its
      // own.
      if (order.size() >= 64 ||
          llvm::any_of(
              ArrayRef<StringAttr>(order).take_front(next),
              [&](StringAttr known) { return known.getValue() == name; }))
        return false;
      place = next;
      order.insert(order.begin() + place, attributeName(node.kind, name));
    }
    next = place + 1;
  }
  return true;
}

ArrayAttr GraphImporter::attributeNames(const NodeState &node) {
  SmallVector<Attribute> names;
  for (const AttributeProto *attribute : node.attributes)
    names.push_back(builder.getStringAttr(attribute->name()));
  return builder.getArrayAttr(names);
}

DictionaryAttr GraphImporter::attributeOrders() {
  NamedAttrList orders;
  for (const auto *map : {&plainKinds, &kinds})
    for (const auto &[key, kind] : *map) {
      auto byName = [](StringAttr a, StringAttr b) {
        return a.getValue() < b.getValue();
      };
      if (!kind || llvm::is_sorted(kind->attributeOrder, byName))
        continue;
      SmallVector<Attribute> names(kind->attributeOrder.begin(),
                                   kind->attributeOrder.end());
      orders.set(kind->orderKey(), builder.getArrayAttr(names));
    }
  return orders.getDictionary(context);
}
