//===- TensorData.h - ONNX element types and tensor values -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_TENSORDATA_H
#define TANDEM_LIB_IMPORT_TENSORDATA_H

#include "ExternalData.h"
#include "ModelFile.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <array>

namespace mlir::tandem::onnx {

/// One more than the largest TensorProto.DataType that is known.
constexpr int32_t kNumDataTypes = 29;

/// The name of an element type as ONNX's documents spell it ("float16"), or
/// "type 99" for one that is not known.
std::string dataTypeName(int32_t dataType);

/// Bits an element takes in raw_data; 0 for strings and for types that are not
/// known.
unsigned dataTypeBits(int32_t dataType);

/// MLIR's types for ONNX's, made once a context.
class ElementTypes {
public:
  explicit ElementTypes(MLIRContext *context);
  /// Null for UNDEFINED and for types that are not known.
  Type operator[](int32_t dataType) const {
    return dataType > 0 && dataType < kNumDataTypes ? types[dataType] : Type();
  }

private:
  std::array<Type, kNumDataTypes> types;
};

/// A tensor's type and size after all checks.
struct TensorInfo {
  RankedTensorType type;
  int64_t numElements = 0;
  /// Bytes of the data as raw_data holds it.
  uint64_t numBytes = 0;
};

/// Turns TensorProtos into attributes and numbers. Errors are one clause each,
/// to follow the tensor's name.
class TensorReader {
public:
  TensorReader(const ModelFile &file, const ElementTypes &types,
               ExternalFiles &external, int64_t maxDense)
      : file(file), types(types), external(external), maxDense(maxDense) {}

  /// Checks element type, dims, and that the data is there in the right amount.
  /// Does not look at the data.
  bool check(const ::tandem_onnx::TensorProto &tensor, TensorInfo &info,
             std::string &error) const;

  /// The tensor as an attribute: dense when it is a splat or small, a resource
  /// over the model's bytes when large, and `#tandem.external` when it is
  /// stored beside the model. `resourceName` must be new to this import. Null
  /// on error.
  Attribute toAttribute(const ::tandem_onnx::TensorProto &tensor,
                        StringRef resourceName, TensorInfo &info,
                        std::string &error) const;

  /// What the external `tensor`, which has passed `check`, holds, as dense
  /// elements. Null where it is not small enough to be a number or a few that
  /// say what the graph means, or where the file can't be read.
  Attribute readSmallExternal(const ::tandem_onnx::TensorProto &tensor,
                              const TensorInfo &info) const;

  /// The elements of an integer or boolean tensor that has passed `check`,
  /// reading external data where it must.
  bool readIntegers(const ::tandem_onnx::TensorProto &tensor,
                    const TensorInfo &info, SmallVectorImpl<int64_t> &values,
                    std::string &error) const;

private:
  bool typedBytes(const ::tandem_onnx::TensorProto &tensor,
                  const TensorInfo &info, SmallVectorImpl<char> &bytes) const;
  Attribute denseFromStorage(const TensorInfo &info, int32_t dataType,
                             ArrayRef<char> storage) const;

  const ModelFile &file;
  const ElementTypes &types;
  ExternalFiles &external;
  int64_t maxDense;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_TENSORDATA_H
