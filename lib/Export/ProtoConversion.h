//===- ProtoConversion.h - Types and attributes to protobuf -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_PROTOCONVERSION_H
#define TANDEM_LIB_EXPORT_PROTOCONVERSION_H

#include "tandem_onnx/onnx.pb.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace mlir::tandem::onnx {

/// A tensor whose bytes are not in its message yet.
struct TensorBytes {
  /// Where they are: in the module, or in `owned`.
  ArrayRef<char> bytes;
  std::unique_ptr<SmallVector<char, 0>> owned;
};

/// Turns MLIR's types and attributes into ONNX's messages. Errors are one
/// clause each, to follow the name of what is converted.
class ProtoConverter {
public:
  explicit ProtoConverter(MLIRContext *context);

  /// ONNX's number for an element type; 0 if it has none.
  int32_t dataType(Type elementType) const {
    return dataTypes.lookup(elementType);
  }

  /// The names that dims had before they were spelled for MLIR.
  void setDimNames(DictionaryAttr names) { dimNames = names; }

  /// Writes what is known of `type`; false if that is nothing. `dimParams`
  /// names dims, as in "0:batch,1:seq".
  bool toType(Type type, StringRef dimParams, ::tandem_onnx::TypeProto &proto);

  /// Writes type and shape of a tensor, and its strings or the place of its
  /// external data. Other values are left in `data`.
  bool toTensor(Attribute value, Type type, ::tandem_onnx::TensorProto &proto,
                TensorBytes &data, std::string &error);

  /// The same with the bytes in the message.
  bool toInlineTensor(Attribute value, Type type,
                      ::tandem_onnx::TensorProto &proto, std::string &error);

  /// Reads the bytes of a SparseTensorProto. Returns false if they are none.
  static bool toSparseTensor(Attribute value,
                             ::tandem_onnx::SparseTensorProto &proto);

  /// Writes name, type and value of a node's attribute. `kind`, null for most,
  /// is what `value` does not show: the attribute's type, or those of external
  /// tensors.
  bool toAttribute(StringRef name, Attribute value, Attribute kind, bool isCast,
                   ::tandem_onnx::AttributeProto &proto, std::string &error);

private:
  bool parseOpaque(StringRef text, ::tandem_onnx::TypeProto &proto);

  MLIRContext *context;
  llvm::DenseMap<Type, int32_t> dataTypes;
  DictionaryAttr dimNames;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_PROTOCONVERSION_H
