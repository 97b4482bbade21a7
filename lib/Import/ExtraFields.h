//===- ExtraFields.h - What MLIR has no place for ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Documentation, metadata and denotations of values and tensors, names of
// tensors in attributes, and the like, are kept for the exporter as messages of
// ONNX in which nothing else is set. Most models have none.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_EXTRAFIELDS_H
#define TANDEM_LIB_IMPORT_EXTRAFIELDS_H

#include "tandem_onnx/onnx.pb.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace mlir::tandem::onnx {

/// The denotation of a kept type that stands for no type at all.
inline constexpr char kNoType[] = "tandem.no_type";

/// Tells values of a graph apart.
using ValuePredicate =
    llvm::function_ref<bool(const ::tandem_onnx::ValueInfoProto &)>;

/// What to keep of the values and initializers of `graph` itself, as a
/// serialized GraphProto; empty if there is nothing. Of a body (`isBody`) also
/// its metadata, which the model keeps elsewhere for its own graph: of that
/// only what a dictionary does not keep. The types of values for which
/// `keepsType` holds are not what the exporter would write. Of `isLeftOut`
/// nothing is kept.
std::string graphExtras(const ::tandem_onnx::GraphProto &graph, bool isBody,
                        ValuePredicate keepsType, ValuePredicate isLeftOut);

/// What to keep of metadata that is otherwise in a dictionary: entries without
/// a key, and the order, as entries without a value, if it is not by key.
void keepMetadata(
    const google::protobuf::RepeatedPtrField<
        ::tandem_onnx::StringStringEntryProto> &props,
    google::protobuf::RepeatedPtrField<::tandem_onnx::StringStringEntryProto>
        &kept);

/// What to keep of the attributes of `node`, and the spelling of its domain, as
/// a serialized NodeProto; empty if there is nothing. `spellsDomain`: whether
/// most nodes of ai.onnx have an empty domain, and not none.
std::string nodeExtras(const ::tandem_onnx::NodeProto &node, bool isInFunction,
                       bool spellsDomain);

/// Whether `node` is of ai.onnx.
inline bool hasPlainDomain(const ::tandem_onnx::NodeProto &node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_EXTRAFIELDS_H
