//===- TensorData.cpp - ONNX element types and tensor values -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorData.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::TensorProto;

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

namespace {

struct DataTypeEntry {
  const char *name;
  unsigned bits;
};

/// By TensorProto.DataType.
constexpr DataTypeEntry kDataTypes[kNumDataTypes] = {
    {"undefined", 0},      {"float", 32},     {"uint8", 8},
    {"int8", 8},           {"uint16", 16},    {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"string", 0},
    {"bool", 8},           {"float16", 16},   {"double", 64},
    {"uint32", 32},        {"uint64", 64},    {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16},  {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4},          {"int4", 4},       {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},      {"int2", 2},
    {"float6e2m3", 6},     {"float6e3m2", 6},
};

} // namespace

std::string mlir::tandem::onnx::dataTypeName(int32_t dataType) {
  if (dataType < 0 || dataType >= kNumDataTypes)
    return ("type " + Twine(dataType)).str();
  return kDataTypes[dataType].name;
}

unsigned mlir::tandem::onnx::dataTypeBits(int32_t dataType) {
  return dataType < 0 || dataType >= kNumDataTypes ? 0
                                                   : kDataTypes[dataType].bits;
}

ElementTypes::ElementTypes(MLIRContext *context) {
  auto integer = [&](unsigned width) {
    return IntegerType::get(context, width);
  };
  auto unsignedInteger = [&](unsigned width) {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  };
  types[TensorProto::FLOAT] = Float32Type::get(context);
  types[TensorProto::UINT8] = unsignedInteger(8);
  types[TensorProto::INT8] = integer(8);
  types[TensorProto::UINT16] = unsignedInteger(16);
  types[TensorProto::INT16] = integer(16);
  types[TensorProto::INT32] = integer(32);
  types[TensorProto::INT64] = integer(64);
  types[TensorProto::STRING] =
      OpaqueType::get(StringAttr::get(context, "onnx"), "String");
  types[TensorProto::BOOL] = integer(1);
  types[TensorProto::FLOAT16] = Float16Type::get(context);
  types[TensorProto::DOUBLE] = Float64Type::get(context);
  types[TensorProto::UINT32] = unsignedInteger(32);
  types[TensorProto::UINT64] = unsignedInteger(64);
  types[TensorProto::COMPLEX64] = ComplexType::get(Float32Type::get(context));
  types[TensorProto::COMPLEX128] = ComplexType::get(Float64Type::get(context));
  types[TensorProto::BFLOAT16] = BFloat16Type::get(context);
  types[TensorProto::FLOAT8E4M3FN] = Float8E4M3FNType::get(context);
  types[TensorProto::FLOAT8E4M3FNUZ] = Float8E4M3FNUZType::get(context);
  types[TensorProto::FLOAT8E5M2] = Float8E5M2Type::get(context);
  types[TensorProto::FLOAT8E5M2FNUZ] = Float8E5M2FNUZType::get(context);
  types[TensorProto::UINT4] = unsignedInteger(4);
  types[TensorProto::INT4] = integer(4);
  types[TensorProto::FLOAT4E2M1] = Float4E2M1FNType::get(context);
  types[TensorProto::FLOAT8E8M0] = Float8E8M0FNUType::get(context);
  types[TensorProto::UINT2] = unsignedInteger(2);
  types[TensorProto::INT2] = integer(2);
  types[TensorProto::FLOAT6E2M3] = Float6E2M3FNType::get(context);
  types[TensorProto::FLOAT6E3M2] = Float6E3M2FNType::get(context);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The number of entries that the typed field of `tensor` must have for
/// `numElements`, and how many it has. Returns false for types that have no
/// typed field.
static bool typedFieldSize(const TensorProto &tensor, int64_t numElements,
                           int64_t &wanted, int64_t &present,
                           const char *&field) {
  wanted = numElements;
  switch (tensor.data_type()) {
  case TensorProto::COMPLEX64:
    wanted = 2 * numElements;
    [[fallthrough]];
  case TensorProto::FLOAT:
    field = "float_data";
    present = tensor.float_data_size();
    return true;
  case TensorProto::COMPLEX128:
    wanted = 2 * numElements;
    [[fallthrough]];
  case TensorProto::DOUBLE:
    field = "double_data";
    present = tensor.double_data_size();
    return true;
  case TensorProto::INT64:
    field = "int64_data";
    present = tensor.int64_data_size();
    return true;
  case TensorProto::UINT32:
  case TensorProto::UINT64:
    field = "uint64_data";
    present = tensor.uint64_data_size();
    return true;
  case TensorProto::STRING:
    field = "string_data";
    present = tensor.string_data_size();
    return true;
  case TensorProto::UINT4:
  case TensorProto::INT4:
  case TensorProto::FLOAT4E2M1:
    wanted = (numElements + 1) / 2;
    break;
  case TensorProto::UINT2:
  case TensorProto::INT2:
    wanted = (numElements + 3) / 4;
    break;
  default:
    break;
  }
  field = "int32_data";
  present = tensor.int32_data_size();
  return true;
}

bool TensorReader::check(const TensorProto &tensor, TensorInfo &info,
                         std::string &error) const {
  Type elementType = types[tensor.data_type()];
  if (!elementType) {
    error = tensor.data_type() == 0
                ? "has no element type"
                : ("has the unknown element type " + Twine(tensor.data_type()))
                      .str();
    return false;
  }
  if (tensor.has_segment()) {
    error = "is stored in segments, which no version of ONNX defines";
    return false;
  }
  // The product of the dims that are not zero must not overflow either: MLIR
  // multiplies them in any order.
  int64_t product = 1;
  bool isEmpty = false;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0) {
      error = ("has the negative dimension " + Twine(dim)).str();
      return false;
    }
    isEmpty |= dim == 0;
    if (dim != 0 && llvm::MulOverflow(product, dim, product)) {
      error = "has more elements than 64 bits can count";
      return false;
    }
  }
  unsigned bits = dataTypeBits(tensor.data_type());
  if (product > std::numeric_limits<int64_t>::max() / 256) {
    error = "has more bytes than 64 bits can count";
    return false;
  }
  SmallVector<int64_t, 8> dims(tensor.dims().begin(), tensor.dims().end());
  info.type = RankedTensorType::get(dims, elementType);
  info.numElements = isEmpty ? 0 : product;
  info.numBytes = (static_cast<uint64_t>(info.numElements) * bits + 7) / 8;

  if (tensor.data_location() == TensorProto::EXTERNAL) {
    if (tensor.data_type() == TensorProto::STRING) {
      error = "holds strings, which cannot be external data";
      return false;
    }
    ExternalRef ref;
    if (!parseExternalRef(tensor, ref, error) ||
        !external.check(ref.location, error))
      return false;
    if (ref.length >= 0 && static_cast<uint64_t>(ref.length) != info.numBytes) {
      error = ("has " + Twine(ref.length) +
               " bytes of external data, but its type needs " +
               Twine(info.numBytes))
                  .str();
      return false;
    }
    return true;
  }

  if (tensor.has_raw_data()) {
    if (tensor.data_type() == TensorProto::STRING) {
      error = "holds strings, which cannot be raw data";
      return false;
    }
    std::optional<ArrayRef<char>> raw = file.rawData(tensor);
    uint64_t present = raw ? raw->size() : 0;
    if (present == info.numBytes)
      return true;
    // An empty raw_data beside a typed field is what some writers leave for
    // "not set".
    if (present != 0) {
      error = ("has " + Twine(present) +
               " bytes of raw data, but its type needs " + Twine(info.numBytes))
                  .str();
      return false;
    }
  }
  int64_t wanted = 0, present = 0;
  const char *field = "";
  typedFieldSize(tensor, info.numElements, wanted, present, field);
  if (wanted != present) {
    error = ("has " + Twine(present) + " entries in " + field +
             ", but its type needs " + Twine(wanted))
                .str();
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Appends the low `width` bytes of `value`, lowest first.
template <typename T>
static void appendBytes(SmallVectorImpl<char> &bytes, T value,
                        unsigned width = sizeof(T)) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  for (unsigned i = 0; i != width; ++i)
    bytes.push_back(static_cast<char>(bits >> (8 * i)));
}

/// Writes the typed field of `tensor` the way raw_data holds it.
bool TensorReader::typedBytes(const TensorProto &tensor, const TensorInfo &info,
                              SmallVectorImpl<char> &bytes) const {
  bytes.reserve(info.numBytes);
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
  case TensorProto::COMPLEX64:
    for (float value : tensor.float_data())
      appendBytes(bytes, value);
    return true;
  case TensorProto::DOUBLE:
  case TensorProto::COMPLEX128:
    for (double value : tensor.double_data())
      appendBytes(bytes, value);
    return true;
  case TensorProto::INT64:
    for (int64_t value : tensor.int64_data())
      appendBytes(bytes, value);
    return true;
  case TensorProto::UINT32:
  case TensorProto::UINT64:
    for (uint64_t value : tensor.uint64_data())
      appendBytes(bytes, value, dataTypeBits(tensor.data_type()) / 8);
    return true;
  case TensorProto::FLOAT6E2M3:
  case TensorProto::FLOAT6E3M2: {
    bytes.assign(info.numBytes, 0);
    for (auto [index, value] : llvm::enumerate(tensor.int32_data()))
      for (unsigned bit = 0; bit != 6; ++bit)
        if ((value >> bit) & 1)
          bytes[(index * 6 + bit) / 8] |=
              static_cast<char>(1 << ((index * 6 + bit) % 8));
    return true;
  }
  default: {
    unsigned width = std::max(1u, dataTypeBits(tensor.data_type()) / 8);
    for (int32_t value : tensor.int32_data())
      appendBytes(bytes, value, width);
    return true;
  }
  }
}

/// Spreads elements of `bits` < 8 bits, packed from the lowest bit up, over a
/// byte each.
static void unpackBits(ArrayRef<char> packed, unsigned bits,
                       int64_t numElements, SmallVectorImpl<char> &bytes) {
  bytes.reserve(numElements);
  for (int64_t i = 0; i != numElements; ++i) {
    uint64_t position = static_cast<uint64_t>(i) * bits;
    unsigned window = static_cast<uint8_t>(packed[position / 8]);
    if (position / 8 + 1 < packed.size())
      window |=
          static_cast<unsigned>(static_cast<uint8_t>(packed[position / 8 + 1]))
          << 8;
    bytes.push_back(
        static_cast<char>((window >> (position % 8)) & ((1u << bits) - 1)));
  }
}

/// Makes a dense attribute of `storage`, which holds a byte-aligned element
/// each, or one element for all.
Attribute TensorReader::denseFromStorage(const TensorInfo &info,
                                         int32_t dataType,
                                         ArrayRef<char> storage) const {
  if (dataType != TensorProto::BOOL)
    return DenseElementsAttr::getFromRawBuffer(info.type, storage);
  SmallVector<bool, 64> values;
  for (char byte : storage)
    values.push_back(byte != 0);
  return DenseElementsAttr::get(info.type, ArrayRef<bool>(values));
}

/// True when all elements of `width` bytes are the same bytes. Stops at the
/// first that differs, so that it reads little of a weight.
static bool isSplat(ArrayRef<char> bytes, size_t width) {
  return bytes.size() > width && std::memcmp(bytes.data(), bytes.data() + width,
                                             bytes.size() - width) == 0;
}

Attribute TensorReader::readSmallExternal(const TensorProto &tensor,
                                          const TensorInfo &info) const {
  if (tensor.data_location() != TensorProto::EXTERNAL ||
      info.numElements == 0 || info.numElements > maxSmallElements ||
      !info.type.getElementType().isIntOrFloat() ||
      dataTypeBits(tensor.data_type()) < 8)
    return {};
  ExternalRef ref;
  std::string error;
  SmallVector<char, 64> bytes;
  if (!parseExternalRef(tensor, ref, error) ||
      !external.read(ref, info.numBytes, bytes, error))
    return {};
  return denseFromStorage(info, tensor.data_type(), bytes);
}

Attribute TensorReader::toAttribute(const TensorProto &tensor,
                                    StringRef resourceName, TensorInfo &info,
                                    std::string &error) const {
  if (!check(tensor, info, error))
    return {};
  MLIRContext *context = info.type.getContext();
  int32_t dataType = tensor.data_type();

  if (dataType == TensorProto::STRING) {
    SmallVector<StringRef> values;
    values.reserve(tensor.string_data_size());
    for (const std::string &value : tensor.string_data())
      values.push_back(value);
    return DenseElementsAttr::get(info.type, values);
  }

  SmallVector<char, 0> owned;
  ArrayRef<char> raw;
  bool isMapped = false;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    ExternalRef ref;
    if (!parseExternalRef(tensor, ref, error))
      return {};
    return ExternalDataAttr::get(context, ref.location, ref.offset, ref.length);
  }
  if (std::optional<ArrayRef<char>> data = file.rawData(tensor);
      data && data->size() == info.numBytes) {
    raw = *data;
    isMapped = true;
  } else {
    typedBytes(tensor, info, owned);
    raw = owned;
  }

  unsigned bits = dataTypeBits(dataType);
  bool isSmall = info.numElements <= maxDense;
  if (bits < 8) {
    if (isSmall) {
      SmallVector<char, 64> bytes;
      unpackBits(raw, bits, info.numElements, bytes);
      return denseFromStorage(info, dataType, bytes);
    }
  } else {
    if (isSmall)
      return denseFromStorage(info, dataType, raw);
    if (isSplat(raw, bits / 8))
      return denseFromStorage(info, dataType, raw.take_front(bits / 8));
  }

  if (!isMapped)
    return DenseResourceElementsAttr::get(
        info.type, resourceName,
        HeapAsmResourceBlob::allocateAndCopyWithAlign(raw, /*align=*/16,
                                                      false));
  // The blob is as aligned as the file happens to have it, at most to a cache
  // line.
  uint64_t address = reinterpret_cast<uintptr_t>(raw.data());
  size_t alignment = std::min<uint64_t>(64, address & (~address + 1));
  auto keep = [buffer = file.buffer()](void *, size_t, size_t) {};
  return DenseResourceElementsAttr::get(
      info.type, resourceName,
      AsmResourceBlob(raw, alignment, std::move(keep),
                      /*dataIsMutable=*/false));
}

bool TensorReader::readIntegers(const TensorProto &tensor,
                                const TensorInfo &info,
                                SmallVectorImpl<int64_t> &values,
                                std::string &error) const {
  SmallVector<char, 0> owned;
  ArrayRef<char> raw;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    ExternalRef ref;
    if (!parseExternalRef(tensor, ref, error) ||
        !external.read(ref, info.numBytes, owned, error))
      return false;
    raw = owned;
  } else if (std::optional<ArrayRef<char>> data = file.rawData(tensor);
             data && data->size() == info.numBytes) {
    raw = *data;
  } else {
    typedBytes(tensor, info, owned);
    raw = owned;
  }
  unsigned width = dataTypeBits(tensor.data_type()) / 8;
  bool isSigned = true;
  switch (tensor.data_type()) {
  case TensorProto::INT8:
  case TensorProto::INT16:
  case TensorProto::INT32:
  case TensorProto::INT64:
    break;
  case TensorProto::UINT8:
  case TensorProto::UINT16:
  case TensorProto::UINT32:
  case TensorProto::UINT64:
  case TensorProto::BOOL:
    isSigned = false;
    break;
  default:
    error = "is not of an integer type";
    return false;
  }
  values.reserve(info.numElements);
  for (int64_t i = 0; i != info.numElements; ++i) {
    uint64_t bits = 0;
    for (unsigned byte = 0; byte != width; ++byte)
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i * width + byte]))
              << (8 * byte);
    values.push_back(isSigned ? llvm::SignExtend64(bits, 8 * width)
                              : static_cast<int64_t>(bits));
  }
  return true;
}
