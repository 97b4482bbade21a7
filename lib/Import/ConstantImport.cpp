//===- ConstantImport.cpp - Initializers and Constant nodes ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

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

StringAttr GraphImporter::readSparse(const SparseTensorProto &tensor,
                                     TensorInfo &info, std::string &error) {
  auto refuse = [&](const Twine &why) {
    error = ("is a sparse tensor " + why).str();
    return StringAttr();
  };
  TensorInfo values, indices;
  std::string why;
  if (!reader.check(tensor.values(), values, why))
    return refuse("whose tensor of values " + why);
  int64_t rank = tensor.dims_size(), count = values.numElements, size = 1;
  if (rank == 0 || rank > kMaxRank)
    return refuse("of " + Twine(rank) + " dimensions; 1 to " + Twine(kMaxRank) +
                  " are read");
  for (int64_t dim : tensor.dims())
    if (dim <= 0 || llvm::MulOverflow(size, dim, size) ||
        size > std::numeric_limits<int64_t>::max() / 256)
      return refuse("with the dimension " + Twine(dim) +
                    (dim <= 0 ? "" : ", too large with the others"));
  if (values.type.getRank() != 1)
    return refuse("whose values have " + Twine(values.type.getRank()) +
                  " dimensions, not one");
  // Without values it needs no indices.
  bool hasIndices = count != 0 || tensor.has_indices();
  if (hasIndices) {
    if (!reader.check(tensor.indices(), indices, why))
      return refuse("whose tensor of indices " + why);
    ArrayRef<int64_t> shape = indices.type.getShape();
    bool isLinear = shape.size() == 1;
    if (tensor.indices().data_type() != TensorProto::INT64 || shape.empty() ||
        shape.size() > 2 || shape[0] != count ||
        (!isLinear && shape[1] != rank))
      return refuse("whose indices are not int64, one or " + Twine(rank) +
                    " for each of its " + Twine(count) + " values");
  }
  if (hasIndices && tensor.indices().data_location() != TensorProto::EXTERNAL) {
    SmallVector<int64_t> places;
    if (!reader.readIntegers(tensor.indices(), indices, places, why))
      return refuse("whose tensor of indices " + why);
    int64_t last = -1;
    bool isLinear = indices.type.getRank() == 1;
    size_t width = isLinear ? 1 : static_cast<size_t>(rank);
    for (size_t at = 0; at < places.size(); at += width) {
      int64_t place = 0;
      bool isInside = true;
      for (size_t i = 0; i != width; ++i) {
        int64_t dim = isLinear ? size : tensor.dims(static_cast<int>(i));
        isInside &= places[at + i] >= 0 && places[at + i] < dim;
        place = isInside ? place * dim + places[at + i] : 0;
      }
      if (!isInside || place <= last)
        return refuse("whose indices are out of range or not in order");
      last = place;
    }
  }
  SmallVector<int64_t, 8> dims(tensor.dims().begin(), tensor.dims().end());
  info.type = RankedTensorType::get(dims, values.type.getElementType());
  info.numElements = size;
  SparseTensorProto whole = tensor;
  auto fill = [&](TensorProto &part) {
    if (std::optional<ArrayRef<char>> raw = file.rawData(part))
      part.set_raw_data(raw->data(), raw->size());
  };
  fill(*whole.mutable_values());
  if (whole.has_indices())
    fill(*whole.mutable_indices());
  if (!charge(whole.ByteSizeLong()))
    return refuse("for which there is too little memory");
  return builder.getStringAttr(whole.SerializeAsString());
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

ValueInfo mlir::tandem::onnx::infoOf(const ::tandem_onnx::TensorProto &tensor) {
  ValueInfo info = ValueInfo::tensor(tensor.data_type());
  info.hasRank = true;
  for (int64_t dim : tensor.dims())
    info.dims.push_back(SymInt::constant(dim));
  return info;
}

ValueInfo
mlir::tandem::onnx::infoOf(const ::tandem_onnx::SparseTensorProto &tensor) {
  SymInts dims;
  for (int64_t dim : tensor.dims())
    dims.push_back(SymInt::constant(dim));
  return ValueInfo::tensor(tensor.values().data_type(), dims);
}

void GraphImporter::importInitializers(Scope &scope, const GraphProto &graph,
                                       const llvm::StringSet<> &skip) {
  llvm::StringSet<> skipped;
  auto isSkipped = [&](const std::string &name) {
    if (!skip.contains(name))
      return false;
    if (!skipped.insert(name).second)
      graphError(scope, "value '" + name +
                            "' is defined twice, by an initializer and by an "
                            "initializer");
    return true;
  };
  for (const SparseTensorProto &sparse : graph.sparse_initializer()) {
    const std::string &name = sparse.values().name();
    if (name.empty()) {
      graphError(scope, "a sparse initializer has no name");
      continue;
    }
    if (isSkipped(name))
      continue;
    Slot *slot = define(scope, name, Slot::kInitializer);
    if (!slot || !charge(256))
      continue;
    TensorInfo info;
    std::string error;
    StringAttr value = readSparse(sparse, info, error);
    if (!value) {
      graphError(scope, llvm::Twine("initializer '") + name + "' " + error);
      slot->value = noValue(scope);
      continue;
    }
    slot->info = infoOf(sparse);
    StringAttr nameAttr = builder.getStringAttr(name);
    noteValue(scope, scope.initializers, nameAttr, *slot);
    Attributes attributes;
    attributes.emplace_back(sparseName, value);
    attributes.emplace_back(initializerName, unit);
    attributes.emplace_back(outputsName, builder.getArrayAttr({nameAttr}));
    Location location = NameLoc::get(nameAttr, scope.callLocation);
    slot->value =
        createOp(scope, location, constantOp, info.type, {}, attributes)
            ->getResult(0);
  }
  for (const TensorProto &tensor : graph.initializer()) {
    if (isSkipped(tensor.name()))
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
    Attribute value =
        reader.toAttribute(tensor, resourceName(tensor.name()), info, error);
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
    StringAttr name = builder.getStringAttr(tensor.name());
    noteValue(scope, scope.initializers, name, *slot);
    Attributes attributes;
    attributes.emplace_back(initializerName, unit);
    attributes.emplace_back(outputsName, builder.getArrayAttr({name}));
    attributes.emplace_back(valueName, value);
    if (Attribute elements = reader.readSmallExternal(tensor, info))
      attributes.emplace_back(elementsName, elements);
    Location location = NameLoc::get(name, scope.callLocation);
    slot->value =
        createOp(scope, location, constantOp, info.type, {}, attributes)
            ->getResult(0);
  }
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
                               tensorInfo, error);
    if (!value)
      return refuse(error);
    info = infoOf(proto.t());
    rememberElements(info, proto.t(), tensorInfo);
    if (Attribute elements = reader.readSmallExternal(proto.t(), tensorInfo))
      attributes.emplace_back(elementsName, elements);
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
    if (!expect(AttributeProto::SPARSE_TENSOR))
      return false;
    const SparseTensorProto &sparse = proto.sparse_tensor();
    TensorInfo tensorInfo;
    std::string error;
    StringAttr bytes = readSparse(sparse, tensorInfo, error);
    if (!bytes)
      return refuse(error);
    info = infoOf(sparse);
    attributes.emplace_back(sparseName, bytes);
    return true;
  } else {
    return refuse("is not one that a Constant has");
  }
  if (name != "value")
    attributes.emplace_back(formName, builder.getStringAttr(name));
  attributes.emplace_back(valueName, value);
  return true;
}
