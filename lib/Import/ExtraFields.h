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

#include <string>

namespace mlir::tandem::onnx {

/// What to keep of the values and initializers of `graph` itself, as a
/// serialized GraphProto; empty if there is nothing. Of a body (`isBody`) also
/// its metadata, which the model keeps elsewhere for its own graph.
std::string graphExtras(const ::tandem_onnx::GraphProto &graph, bool isBody);

/// What to keep of the attributes of `node`, as a serialized NodeProto; empty
/// if there is nothing.
std::string attributeExtras(const ::tandem_onnx::NodeProto &node);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_EXTRAFIELDS_H
