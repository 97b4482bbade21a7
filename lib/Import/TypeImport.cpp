//===- TypeImport.cpp - Types and symbolic dims of ONNX values ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphImporter.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;

static constexpr size_t kMaxSymbolLength = 256;

bool GraphImporter::convertShape(const ::tandem_onnx::TensorShapeProto &shape,
                                 ValueInfo &info, std::string &error) {
  if (shape.dim_size() > kMaxRank) {
    error = ("is declared with " + Twine(shape.dim_size()) +
             " dimensions; at most " + Twine(kMaxRank) + " are read")
                .str();
    return false;
  }
  info.hasRank = true;
  for (const auto &dim : shape.dim()) {
    if (dim.value_case() ==
        ::tandem_onnx::TensorShapeProto::Dimension::kDimValue) {
      if (dim.dim_value() < 0) {
        error = ("is declared with the negative dimension " +
                 Twine(dim.dim_value()))
                    .str();
        return false;
      }
      info.dims.push_back(SymInt::constant(dim.dim_value()));
      continue;
    }
    StringRef name = dim.dim_param();
    if (name.empty()) {
      info.dims.push_back(SymInt());
      continue;
    }
    if (name.size() > kMaxSymbolLength) {
      error =
          ("is declared with a dimension whose name has " + Twine(name.size()) +
           " characters; at most " + Twine(kMaxSymbolLength) + " are read")
              .str();
      return false;
    }
    // PyTorch writes "Max(1, s0)"; a comma would end the name in dim_params.
    std::string key = name.str();
    llvm::replace(key, ',', ';');
    auto [entry, isNew] =
        symbolIds.try_emplace(key, static_cast<int64_t>(symbolNames.size()));
    if (isNew) {
      symbolNames.push_back(entry->getKey());
      if (name.contains(','))
        dimNames.push_back(
            builder.getNamedAttr(key, builder.getStringAttr(name)));
    }
    info.dims.push_back(SymInt::symbol(entry->second));
  }
  return true;
}

bool GraphImporter::convertType(const TypeProto &proto, ValueInfo &info,
                                std::string &error) {
  auto checkElement = [&](int32_t dataType) {
    if (dataType == 0 || types[dataType])
      return true;
    error =
        ("is declared with the unknown element type " + Twine(dataType)).str();
    return false;
  };
  info = ValueInfo();
  switch (proto.value_case()) {
  case TypeProto::kTensorType: {
    const auto &tensor = proto.tensor_type();
    if (!checkElement(tensor.elem_type()))
      return false;
    info.kind = ValueInfo::Tensor;
    info.dataType = tensor.elem_type();
    return !tensor.has_shape() || convertShape(tensor.shape(), info, error);
  }
  case TypeProto::kSequenceType:
  case TypeProto::kOptionalType: {
    bool isSequence = proto.value_case() == TypeProto::kSequenceType;
    const TypeProto &inner = isSequence ? proto.sequence_type().elem_type()
                                        : proto.optional_type().elem_type();
    ValueInfo element;
    if (!convertType(inner, element, error))
      return false;
    info.kind = isSequence ? ValueInfo::Sequence : ValueInfo::Optional;
    info.element = std::make_shared<ValueInfo>(std::move(element));
    return true;
  }
  case TypeProto::kMapType: {
    ValueInfo value;
    if (!checkElement(proto.map_type().key_type()) ||
        !convertType(proto.map_type().value_type(), value, error))
      return false;
    info.kind = ValueInfo::Other;
    Type key = types[proto.map_type().key_type()];
    llvm::raw_string_ostream(info.spelling)
        << "Map<" << (key ? key : noneType) << ", " << typeOf(value) << ">";
    return true;
  }
  case TypeProto::kSparseTensorType: {
    const auto &sparse = proto.sparse_tensor_type();
    ValueInfo tensor;
    if (!checkElement(sparse.elem_type()))
      return false;
    tensor.kind = ValueInfo::Tensor;
    tensor.dataType = sparse.elem_type();
    if (sparse.has_shape() && !convertShape(sparse.shape(), tensor, error))
      return false;
    info.kind = ValueInfo::Other;
    llvm::raw_string_ostream(info.spelling)
        << "Sparse<" << typeOf(tensor) << ">";
    return true;
  }
  case TypeProto::kOpaqueType:
    info.kind = ValueInfo::Other;
    info.spelling = "Opaque<\"";
    llvm::raw_string_ostream(info.spelling)
        << llvm::toHex(proto.opaque_type().domain()) << "\", \""
        << llvm::toHex(proto.opaque_type().name()) << "\">";
    return true;
  case TypeProto::VALUE_NOT_SET:
    return true;
  }
  return true;
}

Type GraphImporter::typeOf(const ValueInfo &info) {
  auto opaque = [&](StringRef spelling) {
    return OpaqueType::get(builder.getStringAttr("onnx"), spelling);
  };
  switch (info.kind) {
  case ValueInfo::Unknown:
    return noneType;
  case ValueInfo::Tensor: {
    Type element = types[info.dataType];
    if (!element)
      return noneType;
    if (!info.hasRank)
      return UnrankedTensorType::get(element);
    SmallVector<int64_t, 8> dims;
    for (SymInt dim : info.dims)
      dims.push_back(dim.isConstant() ? dim.value : ShapedType::kDynamic);
    return RankedTensorType::get(dims, element);
  }
  case ValueInfo::Sequence:
  case ValueInfo::Optional: {
    std::string spelling;
    llvm::raw_string_ostream(spelling)
        << (info.kind == ValueInfo::Sequence ? "Seq<" : "Opt<")
        << (info.element ? typeOf(*info.element) : noneType) << ">";
    return opaque(spelling);
  }
  case ValueInfo::Other:
    return opaque(info.spelling);
  }
  return noneType;
}

/// Bounds the rank, and the number of bytes if all dims are constants.
bool GraphImporter::checkSize(const ValueInfo &info, std::string &error) {
  if (info.element)
    return checkSize(*info.element, error);
  if (!info.isRanked())
    return true;
  if (info.rank() > kMaxRank) {
    error = ("has " + Twine(info.rank()) + " dimensions; at most " +
             Twine(kMaxRank) + " are read")
                .str();
    return false;
  }
  // Zeros are left out: MLIR multiplies dims in any order.
  int64_t bits = 256;
  for (SymInt dim : info.dims)
    if (dim.isConstant() && dim.value != 0 &&
        llvm::MulOverflow(bits, dim.value, bits)) {
      error = "has more bytes than 64 bits can count";
      return false;
    }
  return true;
}

void GraphImporter::appendDimParams(const ValueInfo &info, std::string &text) {
  if (!info.isRanked())
    return;
  for (auto [index, dim] : llvm::enumerate(info.dims)) {
    if (!dim.isSymbol())
      continue;
    if (!text.empty())
      text += ',';
    text += llvm::utostr(index);
    text += ':';
    text += symbolNames[dim.value];
  }
}

ArrayAttr GraphImporter::dimParamsOf(ArrayRef<ValueInfo> infos) {
  if (llvm::none_of(infos, [](const ValueInfo &info) {
        return info.isRanked() && llvm::any_of(info.dims, [](SymInt dim) {
                 return dim.isSymbol();
               });
      }))
    return {};
  SmallVector<Attribute, 4> texts;
  for (const ValueInfo &info : infos) {
    scratch.clear();
    appendDimParams(info, scratch);
    charge(scratch.size());
    if (infos.size() == 1) {
      ArrayAttr &known = dimParams[scratch];
      if (!known)
        known = builder.getArrayAttr(builder.getStringAttr(scratch));
      return known;
    }
    texts.push_back(scratch.empty() ? emptyString
                                    : builder.getStringAttr(scratch));
  }
  return builder.getArrayAttr(texts);
}

std::string GraphImporter::print(const ValueInfo &info) {
  std::string text;
  llvm::raw_string_ostream(text) << typeOf(info);
  return text;
}
