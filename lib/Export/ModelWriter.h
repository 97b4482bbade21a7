//===- ModelWriter.h - A model to a stream -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_MODELWRITER_H
#define TANDEM_LIB_EXPORT_MODELWRITER_H

#include "GraphExporter.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace mlir::tandem::onnx {

/// Writes `model` with `initializers` in its graph. The bytes of initializers
/// go to the stream from where they are: protobuf would copy them twice.
/// Returns false, with one clause in `error`, if the file would be too large
/// for any reader.
bool writeModel(::tandem_onnx::ModelProto &model,
                std::deque<Initializer> &initializers, llvm::raw_ostream &os,
                std::string &error);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_MODELWRITER_H
