//===- ProtoConversion.cpp - Types and attributes to protobuf -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProtoConversion.h"

#include "../Import/TensorData.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::SparseTensorProto;
using ::tandem_onnx::TensorProto;
using ::tandem_onnx::TypeProto;

ProtoConverter::ProtoConverter(MLIRContext *context) : context(context) {
  ElementTypes types(context);
  for (int32_t i = 1; i != kNumDataTypes; ++i)
    if (Type type = types[i])
      dataTypes.try_emplace(type, i);
  // Hosts have signed integers, too.
  for (auto [width, dataType] :
       {std::pair(8, TensorProto::INT8), std::pair(16, TensorProto::INT16),
        std::pair(32, TensorProto::INT32), std::pair(64, TensorProto::INT64)})
    dataTypes.try_emplace(IntegerType::get(context, width, IntegerType::Signed),
                          dataType);
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Reads "0:batch,1:seq".
static llvm::SmallDenseMap<int64_t, StringRef> splitDimParams(StringRef text) {
  llvm::SmallDenseMap<int64_t, StringRef> result;
  while (!text.empty()) {
    auto [entry, rest] = text.split(',');
    auto [index, name] = entry.split(':');
    int64_t number = 0;
    if (!index.getAsInteger(10, number))
      result.try_emplace(number, name);
    text = rest;
  }
  return result;
}

bool ProtoConverter::parseOpaque(StringRef text, TypeProto &proto) {
  auto parse = [&](StringRef inner) {
    ScopedDiagnosticHandler quiet(context,
                                  [](Diagnostic &) { return success(); });
    return parseType(inner, context);
  };
  if (text.consume_front("Opaque<") && text.consume_back(">")) {
    auto [domain, name] = text.split(", ");
    std::string bytes;
    if (llvm::tryGetFromHex(domain.trim('"'), bytes))
      proto.mutable_opaque_type()->set_domain(bytes);
    if (llvm::tryGetFromHex(name.trim('"'), bytes))
      proto.mutable_opaque_type()->set_name(bytes);
    return true;
  }
  if (!text.consume_back(">"))
    return false;
  if (text.consume_front("Seq<")) {
    auto *sequence = proto.mutable_sequence_type();
    if (Type inner = parse(text))
      toType(inner, "", *sequence->mutable_elem_type());
    return true;
  }
  if (text.consume_front("Opt<")) {
    auto *optional = proto.mutable_optional_type();
    if (Type inner = parse(text))
      toType(inner, "", *optional->mutable_elem_type());
    return true;
  }
  if (text.consume_front("Map<")) {
    auto [key, value] = text.split(", ");
    Type keyType = parse(key), valueType = parse(value);
    proto.mutable_map_type()->set_key_type(keyType ? dataType(keyType) : 0);
    if (valueType)
      toType(valueType, "", *proto.mutable_map_type()->mutable_value_type());
    return true;
  }
  if (text.consume_front("Sparse<")) {
    TypeProto tensor;
    if (Type inner = parse(text); !inner || !toType(inner, "", tensor))
      return false;
    auto *sparse = proto.mutable_sparse_tensor_type();
    sparse->set_elem_type(tensor.tensor_type().elem_type());
    if (tensor.tensor_type().has_shape())
      *sparse->mutable_shape() = tensor.tensor_type().shape();
    return true;
  }
  return false;
}

bool ProtoConverter::toType(Type type, StringRef dimParams, TypeProto &proto) {
  if (auto opaque = dyn_cast<OpaqueType>(type))
    return opaque.getDialectNamespace() == "onnx" &&
           parseOpaque(opaque.getTypeData(), proto);
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor)
    return false;
  int32_t element = dataType(tensor.getElementType());
  if (element == 0)
    return false;
  proto.mutable_tensor_type()->set_elem_type(element);
  if (!tensor.hasRank())
    return true;
  auto params = splitDimParams(dimParams);
  auto *shape = proto.mutable_tensor_type()->mutable_shape();
  for (auto [index, size] : llvm::enumerate(tensor.getShape())) {
    auto *dim = shape->add_dim();
    if (!ShapedType::isDynamic(size)) {
      dim->set_dim_value(size);
      continue;
    }
    StringRef name = params.lookup(static_cast<int64_t>(index));
    if (name.empty())
      continue;
    if (dimNames)
      if (auto original = dimNames.getAs<StringAttr>(name))
        name = original.getValue();
    dim->set_dim_param(name.str());
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Packs elements of `bits` < 8 bits from the lowest bit up.
static void packBits(DenseElementsAttr value, unsigned bits,
                     SmallVectorImpl<char> &bytes) {
  int64_t count = value.getNumElements();
  bytes.assign((static_cast<uint64_t>(count) * bits + 7) / 8, 0);
  int64_t index = 0;
  auto add = [&](const APInt &element) {
    uint64_t raw = element.getZExtValue();
    for (unsigned bit = 0; bit != bits; ++bit) {
      uint64_t position = static_cast<uint64_t>(index) * bits + bit;
      if ((raw >> bit) & 1)
        bytes[position / 8] |= static_cast<char>(1 << (position % 8));
    }
    ++index;
  };
  if (isa<FloatType>(value.getElementType()))
    for (const APFloat &element : value.getValues<APFloat>())
      add(element.bitcastToAPInt());
  else
    for (const APInt &element : value.getValues<APInt>())
      add(element);
}

/// The bytes of `value` as raw_data holds them.
static void toBytes(DenseElementsAttr value, unsigned bits, bool isBool,
                    TensorBytes &data) {
  auto owned = std::make_unique<SmallVector<char, 0>>();
  if (isBool) {
    for (bool element : value.getValues<bool>())
      owned->push_back(element);
  } else if (bits < 8) {
    packBits(value, bits, *owned);
  } else if (value.isSplat() && value.getNumElements() != 1) {
    ArrayRef<char> element = value.getRawData();
    owned->reserve(element.size() * value.getNumElements());
    for (int64_t i = 0, e = value.getNumElements(); i != e; ++i)
      owned->append(element.begin(), element.end());
  } else {
    data.bytes = value.getRawData();
    return;
  }
  data.bytes = *owned;
  data.owned = std::move(owned);
}

bool ProtoConverter::toTensor(Attribute value, Type type, TensorProto &proto,
                              TensorBytes &data, std::string &error) {
  auto tensor = dyn_cast_or_null<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape()) {
    error = "is a constant whose type is no tensor of known shape";
    return false;
  }
  int32_t element = dataType(tensor.getElementType());
  if (element == 0) {
    llvm::raw_string_ostream(error)
        << "has the element type " << tensor.getElementType()
        << ", which ONNX does not have";
    return false;
  }
  for (int64_t dim : tensor.getShape())
    proto.add_dims(dim);
  proto.set_data_type(element);

  if (auto external = dyn_cast<ExternalDataAttr>(value)) {
    proto.set_data_location(TensorProto::EXTERNAL);
    auto add = [&](const char *key, const Twine &text) {
      auto *entry = proto.add_external_data();
      entry->set_key(key);
      entry->set_value(text.str());
    };
    add("location", external.getLocation());
    add("offset", Twine(external.getOffset()));
    if (external.getLength() >= 0)
      add("length", Twine(external.getLength()));
    return true;
  }
  if (auto strings = dyn_cast<DenseStringElementsAttr>(value)) {
    ArrayRef<StringRef> raw = strings.getRawStringData();
    for (int64_t i = 0, e = strings.getNumElements(); i != e; ++i)
      proto.add_string_data(raw[strings.isSplat() ? 0 : i].str());
    return true;
  }

  unsigned bits = dataTypeBits(element);
  uint64_t count = 1;
  bool overflows = false;
  for (int64_t dim : tensor.getShape()) {
    uint64_t product = 0;
    overflows |= llvm::MulOverflow(static_cast<int64_t>(count), dim,
                                   reinterpret_cast<int64_t &>(product)) != 0;
    count = product;
  }
  constexpr uint64_t limit = uint64_t(1) << 31;
  if (overflows || count * bits / 8 >= limit) {
    error = "has 2 GiB or more, which no ONNX file holds: its data must be "
            "external";
    return false;
  }
  if (auto dense = dyn_cast<DenseIntOrFPElementsAttr>(value)) {
    toBytes(dense, bits, element == TensorProto::BOOL, data);
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) {
      error = ("refers to the data '" + resource.getRawHandle().getKey() +
               "', which is not in the module (was it elided when the module "
               "was printed?)")
                  .str();
      return false;
    }
    data.bytes = blob->getData();
  } else {
    error = "has a value in a form that is not exported";
    return false;
  }
  uint64_t wanted = (count * bits + 7) / 8;
  if (data.bytes.size() != wanted) {
    error = ("has " + Twine(data.bytes.size()) +
             " bytes of data, but its type needs " + Twine(wanted))
                .str();
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

bool ProtoConverter::toInlineTensor(Attribute value, Type type,
                                    TensorProto &proto, std::string &error) {
  TensorBytes data;
  if (!toTensor(value, type, proto, data, error))
    return false;
  if (proto.data_location() != TensorProto::EXTERNAL &&
      proto.data_type() != TensorProto::STRING)
    proto.set_raw_data(data.bytes.data(), data.bytes.size());
  return true;
}

static bool toFloat(FloatAttr value, float &result) {
  bool losesInfo = false;
  APFloat number = value.getValue();
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  result = number.convertToFloat();
  return !losesInfo || number.isNaN();
}

bool ProtoConverter::toSparseTensor(Attribute value, SparseTensorProto &proto) {
  auto bytes = dyn_cast_or_null<StringAttr>(value);
  return bytes &&
         bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
         proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// A sparse tensor, or a list of them.
static bool toSparse(Attribute value, bool isList, AttributeProto &proto,
                     std::string &error) {
  proto.set_type(isList ? AttributeProto::SPARSE_TENSORS
                        : AttributeProto::SPARSE_TENSOR);
  bool isGood = false;
  if (!isList) {
    isGood =
        ProtoConverter::toSparseTensor(value, *proto.mutable_sparse_tensor());
  } else if (auto list = dyn_cast<ArrayAttr>(value)) {
    isGood = llvm::all_of(list, [&](Attribute entry) {
      return ProtoConverter::toSparseTensor(entry, *proto.add_sparse_tensors());
    });
  }
  if (!isGood)
    error = "is no serialized sparse tensor";
  return isGood;
}

/// A graph, or a list of them, as the bytes of the message.
static bool toGraphs(Attribute value, bool isList, AttributeProto &proto,
                     std::string &error) {
  proto.set_type(isList ? AttributeProto::GRAPHS : AttributeProto::GRAPH);
  auto parse = [](Attribute value, ::tandem_onnx::GraphProto &graph) {
    auto bytes = dyn_cast<StringAttr>(value);
    return bytes &&
           bytes.size() <=
               static_cast<size_t>(std::numeric_limits<int>::max()) &&
           graph.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  };
  bool isGood = false;
  if (!isList) {
    isGood = parse(value, *proto.mutable_g());
  } else if (auto list = dyn_cast<ArrayAttr>(value)) {
    isGood = llvm::all_of(list, [&](Attribute entry) {
      return parse(entry, *proto.add_graphs());
    });
  }
  if (!isGood)
    error = "is no serialized graph";
  return isGood;
}

bool ProtoConverter::toAttribute(StringRef name, Attribute value,
                                 Attribute given, bool isCast,
                                 AttributeProto &proto, std::string &error) {
  proto.set_name(name.str());
  auto kindName = dyn_cast_or_null<StringAttr>(given);
  StringRef kind = kindName ? kindName.getValue() : StringRef();
  if (kind.starts_with("SPARSE_TENSOR"))
    return toSparse(value, kind == "SPARSE_TENSORS", proto, error);
  if (kind.starts_with("GRAPH"))
    return toGraphs(value, kind == "GRAPHS", proto, error);
  if (isa<ExternalDataAttr>(value)) {
    auto type = dyn_cast_or_null<TypeAttr>(given);
    proto.set_type(AttributeProto::TENSOR);
    return toInlineTensor(value, type ? type.getValue() : Type(),
                          *proto.mutable_t(), error);
  }
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    if (number.getValue().getBitWidth() > 64) {
      error = "is an integer of more than 64 bits";
      return false;
    }
    proto.set_type(AttributeProto::INT);
    proto.set_i(number.getType().isInteger(1)
                    ? number.getValue().getZExtValue()
                    : number.getValue().getSExtValue());
    return true;
  }
  if (auto number = dyn_cast<FloatAttr>(value)) {
    float result = 0;
    if (!toFloat(number, result)) {
      error = "is a float that does not fit 32 bits";
      return false;
    }
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(result);
    return true;
  }
  if (auto text = dyn_cast<StringAttr>(value)) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(text.getValue().str());
    return true;
  }
  if (auto type = dyn_cast<TypeAttr>(value)) {
    if (isCast && name == "to") {
      proto.set_type(AttributeProto::INT);
      proto.set_i(dataType(type.getValue()));
      if (proto.i() != 0)
        return true;
      error = "is not an element type of ONNX";
      return false;
    }
    proto.set_type(AttributeProto::TYPE_PROTO);
    toType(type.getValue(), "", *proto.mutable_tp());
    return true;
  }
  if (auto elements = dyn_cast<ElementsAttr>(value)) {
    if (!isa<DenseArrayAttr>(value)) {
      proto.set_type(AttributeProto::TENSOR);
      return toInlineTensor(value, elements.getShapedType(), *proto.mutable_t(),
                            error);
    }
  }
  if (auto numbers = dyn_cast<DenseI64ArrayAttr>(value)) {
    proto.set_type(AttributeProto::INTS);
    proto.mutable_ints()->Add(numbers.asArrayRef().begin(),
                              numbers.asArrayRef().end());
    return true;
  }
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list) {
    error = "has a value that ONNX attributes can't have";
    return false;
  }
  if (list.empty()) {
    proto.set_type(kind == "FLOATS"        ? AttributeProto::FLOATS
                   : kind == "STRINGS"     ? AttributeProto::STRINGS
                   : kind == "TENSORS"     ? AttributeProto::TENSORS
                   : kind == "TYPE_PROTOS" ? AttributeProto::TYPE_PROTOS
                                           : AttributeProto::INTS);
    return true;
  }
  auto kinds = dyn_cast_or_null<ArrayAttr>(given);
  for (auto [index, entry] : llvm::enumerate(list)) {
    AttributeProto one;
    Attribute own = kinds && index < kinds.size() ? kinds[index] : Attribute();
    if (isa<ArrayAttr>(entry) ||
        !toAttribute(name, entry, own, /*isCast=*/false, one, error)) {
      if (error.empty())
        error = "has a value that ONNX attributes can't have";
      return false;
    }
    AttributeProto::AttributeType type = AttributeProto::UNDEFINED;
    switch (one.type()) {
    case AttributeProto::INT:
      type = AttributeProto::INTS;
      proto.add_ints(one.i());
      break;
    case AttributeProto::FLOAT:
      type = AttributeProto::FLOATS;
      proto.add_floats(one.f());
      break;
    case AttributeProto::STRING:
      type = AttributeProto::STRINGS;
      proto.add_strings(one.s());
      break;
    case AttributeProto::TENSOR:
      type = AttributeProto::TENSORS;
      proto.add_tensors()->Swap(one.mutable_t());
      break;
    case AttributeProto::TYPE_PROTO:
      type = AttributeProto::TYPE_PROTOS;
      proto.add_type_protos()->Swap(one.mutable_tp());
      break;
    default:
      break;
    }
    if (type == AttributeProto::UNDEFINED ||
        (proto.has_type() && proto.type() != type)) {
      error = "is a list of values of different kinds";
      return false;
    }
    proto.set_type(type);
  }
  return true;
}
