//===- Weights.h - Files of external data beside the output -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_WEIGHTS_H
#define TANDEM_LIB_EXPORT_WEIGHTS_H

#include "GraphExporter.h"

namespace mlir::tandem::onnx {

/// Sees to it that the references to external data in `model` and
/// `initializers` are right for `options.outputPath`: rewrites them, or links
/// or copies the files. Reports errors and warnings at `location`.
LogicalResult placeWeights(::tandem_onnx::ModelProto &model,
                           std::deque<Initializer> &initializers,
                           const OnnxExportOptions &options, Location location);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_WEIGHTS_H
