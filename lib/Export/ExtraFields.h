//===- ExtraFields.h - What MLIR has no place for ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The counterpart of lib/Import/ExtraFields.h: puts what the importer kept
// beside the MLIR back where what it belongs to is still there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_EXTRAFIELDS_H
#define TANDEM_LIB_EXPORT_EXTRAFIELDS_H

#include "tandem_onnx/onnx.pb.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::tandem::onnx {

/// Adds the fields of the serialized GraphProto `extras` to `graph`, whose
/// nodes and values are complete. `initializers` are those of its initializers
/// that are kept elsewhere. Returns false if `extras` can't be read.
bool addGraphExtras(llvm::StringRef extras, ::tandem_onnx::GraphProto &graph,
                    llvm::ArrayRef<::tandem_onnx::TensorProto *> initializers);

/// Adds to `graph`, whose nodes and values are complete, what the serialized
/// GraphProto `others` has of values that are none of the module's: value_info,
/// a body's inputs that are constants, and values of inputs that are fed.
/// Returns false if `others` can't be read.
bool addOtherValues(llvm::StringRef others, ::tandem_onnx::GraphProto &graph);

/// Removes the value_info of `names`.
void dropValueInfo(::tandem_onnx::GraphProto &graph,
                   const llvm::StringSet<> &names);

/// Puts `props` in the order of `kept`, of which entries with a value are
/// added.
void addMetadata(
    const google::protobuf::RepeatedPtrField<
        ::tandem_onnx::StringStringEntryProto> &kept,
    google::protobuf::RepeatedPtrField<::tandem_onnx::StringStringEntryProto>
        &props);

/// Adds the fields of the serialized NodeProto `extras` to `node`, whose
/// attributes are complete. Returns false if `extras` can't be read.
bool addNodeExtras(llvm::StringRef extras, ::tandem_onnx::NodeProto &node);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_EXTRAFIELDS_H
