//===- Describe.h - The parts of the pass --------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_DESCRIBE_DESCRIBE_H
#define TANDEM_PASSES_DESCRIBE_DESCRIBE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::tandem {

/// The name of the function that computes the sizes of `function`'s results.
std::string getShapeFunctionName(func::FuncOp function);

/// Puts a function behind `function` that computes the sizes of its results.
/// Returns null, leaving nothing behind, where that takes a collective.
/// `simplify` runs canonicalization and the like on a function.
FailureOr<func::FuncOp>
createShapeFunction(func::FuncOp function,
                    function_ref<LogicalResult(func::FuncOp)> simplify);

/// Erases what neither the stores and checks with `tandem.shape_function` in
/// `function` nor its control flow need. Effects don't count here.
void eraseUnused(func::FuncOp function);

/// What docs/lowering.md says of `tandem_module_info`, for the public functions
/// of `module`.
std::string describeModule(ModuleOp module);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_DESCRIBE_DESCRIBE_H
