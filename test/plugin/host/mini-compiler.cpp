//===- mini-compiler.cpp - A host with an onnx dialect of its own ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small compiler that knows nothing of Tandem and loads it as a plugin. It
// does not allow unregistered dialects, and aborts if anybody registers a
// second `onnx` dialect.
//
//===----------------------------------------------------------------------===//

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

#include "MiniOnnxDialect.h.inc"
#define GET_OP_CLASSES
#include "MiniOnnx.h.inc"

#include "MiniOnnxDialect.cpp.inc"
#define GET_OP_CLASSES
#include "MiniOnnx.cpp.inc"

void mini::OnnxDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "MiniOnnx.cpp.inc"
      >();
}

OpFoldResult mini::ConstantOp::fold(FoldAdaptor) { return getValue(); }

LogicalResult mini::CustomOp::verify() {
  if (getFunctionName().empty())
    return emitOpError("needs the name of a function");
  return success();
}

int main(int argc, char **argv) {
  registerTransformsPasses();
  DialectRegistry registry;
  registry.insert<func::FuncDialect, mini::OnnxDialect>();
  return asMainReturnCode(MlirOptMain(
      argc, argv, "A compiler that is not part of Tandem\n", registry));
}
