//===- OpVersions.h - When the ops of ONNX changed --------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_OPVERSIONS_H
#define TANDEM_LIB_EXPORT_OPVERSIONS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mlir::tandem::onnx {

/// Whether the op `opType` of ai.onnx is the same in both opsets, which are 7
/// or newer. Ops that ONNX does not have do not change.
bool isSameOp(llvm::StringRef opType, int64_t opset, int64_t otherOpset);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_OPVERSIONS_H
