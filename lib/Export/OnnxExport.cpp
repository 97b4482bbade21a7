//===- OnnxExport.cpp - From MLIR to ONNX -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Export/OnnxExport.h"

#include "GraphExporter.h"
#include "ModelWriter.h"
#include "Weights.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mlir::tandem;

LogicalResult mlir::tandem::exportOnnx(ModuleOp module, llvm::raw_ostream &os,
                                       const OnnxExportOptions &options) {
  ::tandem_onnx::ModelProto model;
  onnx::GraphExporter exporter(module, model, options);
  if (failed(exporter.run()) ||
      failed(onnx::placeWeights(model, exporter.getInitializers(), options,
                                module.getLoc())))
    return failure();
  std::string error;
  if (onnx::writeModel(model, exporter.getInitializers(), os, error))
    return success();
  return emitError(module.getLoc()) << error;
}
